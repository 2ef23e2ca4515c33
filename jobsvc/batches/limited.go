package batches

import (
	"context"
	"errors"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// limited reports whether there is a limit, a budget, a guardrail or a policy that may hold for the batch, or its key
// is bound to endpoints or to models. Only the gateway can hold it to them, line by line: what a provider runs by
// itself is known when it is over.
func (w *work) limited(ctx context.Context, model, provider string) (bool, error) {
	key, tenant := w.rec.Value.Key, w.rec.Tenant
	entries := map[string]string{"key": key, "organization": tenant.Organization, "model": model, "provider": provider}
	owners := []configv1.Object{&configv1.Key{Name: key}}
	if tenant.Organization != "" {
		owners = append(owners, &configv1.Organization{Name: tenant.Organization})
		if tenant.Project != "" {
			entries["project"] = tenant.Organization + "/" + tenant.Project
			owners = append(owners, &configv1.Project{Name: entries["project"]})
		}
	}
	for _, o := range owners {
		e, err := w.s.Objects.Get(ctx, configv1.KindOf(o), o.GetName())
		if errors.Is(err, configstore.ErrNotFound) {
			continue // organizations and projects need no object; of a key, the gateway has just said that it is good
		}
		if err != nil {
			return false, err
		}
		if k, ok := e.Object.(*configv1.Key); ok && (len(k.GetEndpoints()) > 0 || isBound(k, provider)) {
			return true, nil
		}
		owner, ok := e.Object.(interface {
			GetLimits() []*configv1.Limit
			GetBudgets() []*configv1.Budget
		})
		if !ok || len(owner.GetLimits())+len(owner.GetBudgets()) > 0 {
			return true, nil // also where the object cannot be read
		}
	}
	all, err := w.s.Objects.List(ctx, configv1.KindOf((*configv1.RateLimit)(nil)))
	if err != nil {
		return false, err
	}
	for _, e := range all {
		if r, ok := e.Object.(*configv1.RateLimit); !ok || mayLimit(r.GetDescriptors(), entries) {
			return true, nil
		}
	}
	return w.ruled(ctx, model)
}

// isBound reports whether a key may not use all models of a provider. The lines of its batches may name others than
// their own, which only the gateway sees.
func isBound(k *configv1.Key, provider string) bool {
	return len(k.GetModels()) > 0 && !slices.ContainsFunc(k.GetModels(),
		func(pattern string) bool { return configv1.Matches(pattern, provider+"/*") })
}

// ruled reports whether a policy or a guardrail is for the batch.
func (w *work) ruled(ctx context.Context, model string) (bool, error) {
	tenant := w.rec.Tenant
	client := configv1.Client{Key: w.rec.Value.Key, Organization: tenant.Organization, Project: tenant.Project}
	for _, none := range []configv1.Object{(*configv1.Policy)(nil), (*configv1.Guardrail)(nil)} {
		all, err := w.s.Objects.List(ctx, configv1.KindOf(none))
		if err != nil {
			return false, err
		}
		for _, e := range all {
			if mayRule(e.Object, client, model) {
				return true, nil
			}
		}
	}
	return false, nil
}

// mayRule reports whether an object may be for a client's requests to a model, also if it cannot be read.
func mayRule(o configv1.Object, client configv1.Client, model string) bool {
	rule, ok := o.(interface {
		configv1.Scoped
		GetDisabled() bool
	})
	if !ok {
		return true
	}
	models, byModel := o.(interface{ GetModels() []string })
	return !rule.GetDisabled() && configv1.Covers(rule, client) && (!byModel || configv1.CoversModel(models, model))
}

// mayLimit reports whether one of the descriptors may refuse a request with these entries. Users are not known
// here, so any user may match. The lines for which a limit's expression is true are not known either.
func mayLimit(all []*configv1.RateLimitDescriptor, entries map[string]string) bool {
	for _, d := range all {
		if !mayMatch(d, entries) {
			continue
		}
		if d.GetRateLimit() != nil && !d.GetShadowMode() || mayLimit(d.GetDescriptors(), entries) {
			return true
		}
	}
	return false
}

func mayMatch(d *configv1.RateLimitDescriptor, entries map[string]string) bool {
	if d.GetKey() == "user" {
		return true
	}
	value := entries[d.GetKey()]
	return value != "" && (d.GetValue() == "" || configv1.Matches(d.GetValue(), value))
}
