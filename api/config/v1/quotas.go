package configv1

import (
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A key for a trial is for one person to try the gateway, as the playground and modelgate check do. It waits for no
// approval only because it is a new one.
const (
	// TrialLife is how long such a key lives at most.
	TrialLife = time.Hour
	// TrialUSD is its budget.
	TrialUSD = "1"
)

// organizationFactor is the ratio of an organization's default quotas to a project's.
const organizationFactor = 4

// defaultQuotas are the quotas of a project, and of a key without an organization. A normal tenant never reaches them.
func defaultQuotas() *Quotas {
	return &Quotas{
		OpenBatches: 1000, KeptBatches: 100_000, Files: 50_000, FileBytes: 20 << 30, OpenUploads: 100, KeptUploads: 10_000,
		OpenFineTuningJobs: 100, KeptFineTuningJobs: 10_000, IdempotencyRecords: 50_000, RecordBytes: 128 << 20,
		Webhooks: 20, WritesPerMinute: 300, StoredResponses: 100_000, StoredResponseBytes: 20 << 30,
		OpenBackgroundResponses: 500,
	}
}

// QuotasOf returns the quotas of an Organization, a Project or a Key. Absent quotas have the defaults of the kind.
func QuotasOf(o Object) *Quotas {
	q, factor := defaultQuotas(), uint64(1)
	if _, ok := o.(*Organization); ok {
		factor = organizationFactor
	}
	var own *Quotas
	if with, ok := o.(interface{ GetQuotas() *Quotas }); ok {
		own = with.GetQuotas()
	}
	q.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, normal protoreflect.Value) bool {
		n := normal.Uint() * factor
		if said := own.ProtoReflect().Get(f).Uint(); said != 0 {
			n = said
		}
		q.ProtoReflect().Set(f, protoreflect.ValueOfUint64(n))
		return true
	})
	return q
}

// Get returns the quota with a name, such as open_batches, or 0.
func (x *Quotas) Get(name string) uint64 {
	f := x.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil {
		return 0
	}
	return x.ProtoReflect().Get(f).Uint()
}

const (
	maxQuota  = 1 << 50 // sums of it stay exact
	maxWrites = 1_000_000
)

func (x *Quotas) check(v *validator) {
	x.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, n protoreflect.Value) bool {
		most := uint64(maxQuota)
		if f.Name() == "writes_per_minute" {
			most = maxWrites
		}
		if n.Uint() > most {
			v.fail(string(f.Name()), "must be at most %d", most)
		}
		return true
	})
}

// validateQuotas refuses more webhooks than the quota of an organization or a project. The error is on the last one.
func validateQuotas(objects []Object) Errors {
	var errs Errors
	owners := map[string]Object{}
	for _, o := range objects {
		switch o.(type) {
		case *Organization, *Project:
			owners[Label(o)] = o
		}
	}
	count := map[string]uint64{}
	for _, o := range objects {
		w, ok := o.(*Webhook)
		if !ok {
			continue
		}
		above := []Object{&Organization{Name: w.GetOrganization()}}
		switch {
		case w.GetOrganization() == "": // keys without an organization: together they have what a project has
			above = []Object{&Project{}}
		case w.GetProject() != "":
			above = append(above, &Project{Name: w.GetOrganization() + "/" + w.GetProject()})
		}
		for _, of := range above {
			if there := owners[Label(of)]; there != nil {
				of = there
			}
			if count[Label(of)]++; count[Label(of)] == QuotasOf(of).GetWebhooks()+1 {
				who := strings.TrimSpace(Label(of))
				if of.GetName() == "" {
					who = "keys without an organization"
				}
				errs.add(Label(o), "",
					"is one more than the quota 'webhooks' of %s, which is %d; delete one that is not needed, or raise quotas.webhooks",
					who, QuotasOf(of).GetWebhooks())
			}
		}
	}
	return errs
}
