package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// attentionFor is how long what needs attention is kept.
const attentionFor = 5 * time.Second

func (s *server) attention(w http.ResponseWriter, r *http.Request) error {
	all, err := s.needAttention(r.Context())
	if err != nil {
		return err
	}
	out := adminapi.Attentions{Items: []adminapi.Attention{}}
	for _, a := range all {
		if mayKnow(r.Context(), a) {
			out.Items = append(out.Items, a)
		}
	}
	return httpapi.WriteJSON(w, http.StatusOK, out)
}

// mayKnow reports whether the caller may read what an item is about.
func mayKnow(ctx context.Context, a adminapi.Attention) bool {
	switch kind, _, _ := strings.Cut(a.Object, " "); {
	case kind != "":
		k, ok := configv1.FindKind(kind)
		return ok && (authz.Needs(ctx, authz.ReadScope(k)) == nil || k.Name == "Provider")
	case a.Kind == adminapi.AttentionApprovals:
		return authz.Needs(ctx, authz.AdminsRead) == nil
	case a.Kind == adminapi.AttentionTokensOfLeaver:
		return authz.Needs(ctx, authz.AdminsRead) == nil
	case a.Kind == adminapi.AttentionKeyExpires, a.Kind == adminapi.AttentionKeysOfLeaver:
		return authz.Needs(ctx, authz.KeysRead) == nil
	}
	return true
}

func (s *server) needAttention(ctx context.Context) ([]adminapi.Attention, error) {
	return s.attentive.get(attentionFor, func() ([]adminapi.Attention, error) {
		f, err := s.facts(ctx)
		if err != nil {
			return nil, err
		}
		return attention.Of(f), nil
	})
}

// facts gathers what is known. A ledger that is away is a fact.
func (s *server) facts(ctx context.Context) (attention.Facts, error) {
	f := attention.Facts{Now: time.Now(), Plane: s.config.Plane.DataPlane(ctx).Clients}
	_, keys := s.config.Plane.Keys()
	kindOfKeys := configv1.KeyKind().Name
	for name, o := range keys {
		if k, ok := o.(*configv1.Key); ok && k.GetExpiresAt() != nil {
			f.Keys = append(f.Keys, k)
		}
		if e := s.config.Plane.ObjectError(kindOfKeys, name); e != "" {
			f.Objects = append(f.Objects, attention.ObjectError{Kind: kindOfKeys, Name: name, Error: e})
		}
	}
	left := newLeft(keys, f.Now)
	for _, kind := range configv1.Kinds() {
		if kind.Name == kindOfKeys {
			continue // of which there are many
		}
		entries, err := s.config.Store.List(ctx, kind)
		if err != nil {
			return f, err
		}
		left.add(entries)
		for _, e := range entries {
			if status := s.item(ctx, e).Status; status.Error != "" {
				f.Objects = append(f.Objects, attention.ObjectError{Kind: kind.Name, Name: e.Name, Error: status.Error})
			}
		}
	}
	f.Leavers = left.leavers()
	slices.SortFunc(f.Objects, func(a, b attention.ObjectError) int {
		return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name)
	})
	if s.config.Sinks != nil {
		var err error
		if f.Sinks, err = s.config.Sinks.Sinks(ctx); err != nil {
			return f, err
		}
	}
	s.spendingFacts(ctx, &f)
	var err error
	f.Waiting, err = s.changes.Approvals().Since(ctx)
	return f, err
}

// spendingFacts adds what the ledger knows.
func (s *server) spendingFacts(ctx context.Context, f *attention.Facts) {
	if s.config.Ledger == nil {
		return
	}
	var err error
	if f.Providers, err = s.config.Ledger.Health(ctx); err == nil {
		f.Rejected, err = s.config.Ledger.Rejected(ctx)
	}
	if err == nil {
		f.Unjudged, err = s.config.Ledger.Unjudged(ctx)
	}
	if err == nil {
		f.Spools, err = s.config.Ledger.Spools(ctx)
	}
	if err == nil {
		f.Budgets, err = s.budgetUses(ctx)
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
