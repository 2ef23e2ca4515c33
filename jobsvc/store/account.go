package store

import (
	"encoding/json"
	"net/url"
	"strings"
)

// A Quota is something that a tenant may have only so much of. It has the name of its field in the
// configuration's Quotas.
type Quota int

// The quotas that are counted here. What is kept is all that there is, open or over.
const (
	OpenBatches Quota = iota
	KeptBatches
	Files
	FileBytes
	OpenUploads
	KeptUploads
	OpenFineTuningJobs
	KeptFineTuningJobs
	IdempotencyRecords
	RecordBytes // of records in etcd, about
	OpenBackgroundResponses
	StoredResponses // with conversations
	StoredResponseBytes
	numQuotas
)

// String returns the quota's name.
func (q Quota) String() string {
	return [numQuotas]string{
		"open_batches", "kept_batches", "files", "file_bytes", "open_uploads", "kept_uploads", "open_fine_tuning_jobs",
		"kept_fine_tuning_jobs", "idempotency_records", "record_bytes",
		"open_background_responses", "stored_responses", "stored_response_bytes",
	}[q]
}

// AllQuotas returns the quotas.
func AllQuotas() []Quota {
	all := make([]Quota, numQuotas)
	for i := range all {
		all[i] = Quota(i)
	}
	return all
}

// Amounts are how much there is of each quota. In JSON they are an object without what is 0.
type Amounts [numQuotas]int64

func (a Amounts) plus(b Amounts) Amounts {
	for q := range a {
		a[q] += b[q]
	}
	return a
}

func (a Amounts) minus(b Amounts) Amounts {
	for q := range a {
		a[q] -= b[q]
	}
	return a
}

// MarshalJSON implements json.Marshaler.
func (a Amounts) MarshalJSON() ([]byte, error) {
	named := map[string]int64{}
	for q, n := range a {
		if n != 0 {
			named[Quota(q).String()] = n
		}
	}
	return json.Marshal(named)
}

// UnmarshalJSON implements json.Unmarshaler. Names that it does not know come from another version. They
// do not count.
func (a *Amounts) UnmarshalJSON(text []byte) error {
	var named map[string]int64
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	*a = Amounts{}
	for q := range a {
		a[q] = named[Quota(q).String()]
	}
	return nil
}

// An Owner is who made an object: a key of a tenant.
type Owner struct {
	Tenant Tenant
	Key    string // name of the Key object; it matters if there is no organization
}

// Accounts returns what an owner's objects count for: its organization, and its project where it has one. Keys without
// an organization share a tenant, but not an account: each has its own, so that none uses up what others need.
func (o Owner) Accounts() []Account {
	switch t := o.Tenant; {
	case t.Organization == "":
		return []Account{{Key: o.Key}}
	case t.Project == "":
		return []Account{{Organization: t.Organization}}
	default:
		return []Account{{Organization: t.Organization}, {Organization: t.Organization, Project: t.Project}}
	}
}

// An Account is an owner of quotas: an organization, a project in it, or a key without an organization.
type Account struct{ Organization, Project, Key string }

// String says who it is, for messages.
func (a Account) String() string {
	switch {
	case a.Project != "":
		return "the project '" + a.Organization + "/" + a.Project + "'"
	case a.Organization != "":
		return "the organization '" + a.Organization + "'"
	}
	return "the key '" + a.Key + "'"
}

const usageRoot = Root + "usage/"

func (a Account) path() string {
	return usageRoot + url.QueryEscape(a.Organization) + "/" + url.QueryEscape(a.Project) + "/" + url.QueryEscape(a.Key)
}

// accountAt is the inverse of path.
func accountAt(path string) (a Account, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, usageRoot), "/")
	if len(parts) != 3 {
		return a, false
	}
	for i, to := range []*string{&a.Organization, &a.Project, &a.Key} {
		text, err := url.QueryUnescape(parts[i])
		if err != nil {
			return a, false
		}
		*to = text
	}
	return a, true
}
