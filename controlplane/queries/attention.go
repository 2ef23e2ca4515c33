package queries

import (
	"context"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/configstore"
)

// attentionFor is how long what needs attention is kept.
const attentionFor = 5 * time.Second

// Attention returns what needs attention, as far as the caller may read what it is about.
func (q *Service) Attention(ctx context.Context) (adminapi.Attentions, error) {
	out := adminapi.Attentions{Items: []adminapi.Attention{}}
	all, err := q.needAttention(ctx)
	for _, a := range all {
		if mayKnow(ctx, a) {
			out.Items = append(out.Items, a)
		}
	}
	return out, err
}

// mayKnow reports whether the caller may read what an item is about.
func mayKnow(ctx context.Context, a adminapi.Attention) bool {
	switch kind, _, _ := strings.Cut(a.Object, " "); {
	case kind != "":
		k, ok := configv1.FindKind(kind)
		return ok && (authz.Needs(ctx, authz.ReadScope(k)) == nil || k.Name == "Provider")
	case a.Kind == adminapi.AttentionLimit, a.Kind == adminapi.AttentionKeyRefused: // they name users, or ends of keys
		return authz.Needs(ctx, authz.UsageRead) == nil
	case a.Kind == adminapi.AttentionBatchStuck:
		return authz.Needs(ctx, authz.JobsRead) == nil
	case a.Kind == adminapi.AttentionApprovals:
		return authz.Needs(ctx, authz.AdminsRead) == nil
	case a.Kind == adminapi.AttentionTokensOfLeaver:
		return authz.Needs(ctx, authz.AdminsRead) == nil
	case a.Kind == adminapi.AttentionKeyExpires, a.Kind == adminapi.AttentionKeysOfLeaver:
		return authz.Needs(ctx, authz.KeysRead) == nil
	}
	return true
}

func (q *Service) needAttention(ctx context.Context) ([]adminapi.Attention, error) {
	return q.attentive.get(attentionFor, func() ([]adminapi.Attention, error) {
		f, err := q.Facts(ctx)
		if err != nil {
			return nil, err
		}
		return incidents.Attention(f), nil
	})
}

// Facts gathers the facts. An unavailable ledger is one of them.
func (q *Service) Facts(ctx context.Context) (attention.Facts, error) {
	f := attention.Facts{Now: q.options.Now(), Plane: q.options.Plane.DataPlane(ctx).Clients,
		Certificates: map[string]time.Time{}}
	for name, chain := range q.options.Plane.Chains() {
		f.Certificates[name] = certs.Expires(chain)
	}
	_, keys := q.options.Plane.Keys()
	kindOfKeys := configv1.KeyKind().Name
	for name, o := range keys {
		if k, ok := o.(*configv1.Key); ok && k.GetExpiresAt() != nil {
			f.Keys = append(f.Keys, k)
		}
		if e := q.options.Plane.ObjectError(kindOfKeys, name); e != "" {
			f.Objects = append(f.Objects, attention.ObjectError{Kind: kindOfKeys, Name: name, Error: e})
		}
	}
	enabled, err := q.objectFacts(ctx, &f, newLeft(keys, f.Now))
	if err != nil {
		return f, err
	}
	if q.options.Sinks != nil {
		if f.Sinks, err = q.options.Sinks.Sinks(ctx); err != nil {
			return f, err
		}
	}
	if q.options.Running != nil {
		if f.Batches, err = q.options.Running.Running(ctx); err != nil {
			return f, err
		}
	}
	q.spendingFacts(ctx, &f)
	onlyEnabled(&f, enabled)
	f.Waiting, err = q.options.Config.Approvals().Since(ctx)
	return f, err
}

// objectFacts adds what is wrong with objects other than keys, and what people have left. It returns which
// objects are enabled.
func (q *Service) objectFacts(ctx context.Context, f *attention.Facts, left *left) (map[configstore.Ref]bool,
	error) {
	enabled := map[configstore.Ref]bool{}
	for _, kind := range configv1.Kinds() {
		if kind.Name == configv1.KeyKind().Name {
			continue // there are many keys
		}
		entries, err := q.options.Store.List(ctx, kind)
		if err != nil {
			return nil, err
		}
		left.add(entries)
		if kind.Name == configv1.KindOf((*configv1.JobService)(nil)).Name {
			f.NoJobs = len(entries) > 0 && !slices.ContainsFunc(f.Plane, isJobs)
		}
		for _, e := range entries {
			o, _ := e.Object.(interface{ GetDisabled() bool })
			enabled[configstore.Ref{Kind: kind.Name, Name: e.Name}] = o == nil || !o.GetDisabled()
			if problem := q.ObjectError(e); problem != "" {
				f.Objects = append(f.Objects, attention.ObjectError{Kind: kind.Name, Name: e.Name, Error: problem})
			}
		}
	}
	f.Leavers = left.leavers()
	slices.SortFunc(f.Objects, func(a, b attention.ObjectError) int {
		return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name)
	})
	return enabled, nil
}

// onlyEnabled leaves out what concerns objects that are deleted or disabled: nobody can do anything about them.
func onlyEnabled(f *attention.Facts, enabled map[configstore.Ref]bool) {
	gone := func(name string) bool {
		return !enabled[configstore.Ref{Kind: configv1.KindOf((*configv1.Provider)(nil)).Name, Name: name}]
	}
	f.Providers = slices.DeleteFunc(f.Providers, func(h adminapi.ProviderHealth) bool { return gone(h.Provider) })
	f.Rejected = slices.DeleteFunc(f.Rejected, func(r attention.Rejection) bool { return gone(r.Provider) })
	f.Unjudged = slices.DeleteFunc(f.Unjudged, func(u attention.Unjudged) bool {
		name, _, _ := strings.Cut(u.Rule, "/")
		return !enabled[configstore.Ref{Kind: configv1.KindOf((*configv1.Guardrail)(nil)).Name, Name: name}]
	})
}

// isJobs reports whether a client of the control plane is a job service.
func isJobs(c adminapi.DataPlaneClient) bool { return c.Role == "jobs" }

// spendingFacts adds what the ledger knows.
func (q *Service) spendingFacts(ctx context.Context, f *attention.Facts) {
	if q.options.Ledger == nil {
		return
	}
	var err error
	if f.Providers, err = q.Health(ctx); err == nil {
		f.Rejected, err = q.options.Ledger.Rejected(ctx)
	}
	if err == nil {
		f.Unjudged, err = q.options.Ledger.Unjudged(ctx)
	}
	if err == nil {
		f.Spools, err = q.options.Ledger.Spools(ctx)
	}
	if err == nil {
		f.Budgets, err = q.budgetUses(ctx)
	}
	if err == nil {
		err = q.trafficFacts(ctx, f)
	}
	if err != nil {
		f.Ledger = "the ledger is unreachable."
		return
	}
	f.Budgets = slices.Clone(f.Budgets)
	slices.SortFunc(f.Budgets, func(a, b adminapi.BudgetUse) int {
		return strings.Compare(a.Scope+a.Unit, b.Scope+b.Unit)
	})
}
