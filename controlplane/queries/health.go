package queries

import (
	"context"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// Health returns the health of every provider: of those that are configured, and of those that were asked in the last
// day.
func (q *Service) Health(ctx context.Context) ([]adminapi.ProviderHealth, error) {
	all, err := q.options.Ledger.Health(ctx)
	if err != nil {
		return nil, ledger.Unavailable(err)
	}
	entries, err := q.options.Store.List(ctx, configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Deleted = true
	}
	var idle []string
	for _, e := range entries {
		i := slices.IndexFunc(all, func(h adminapi.ProviderHealth) bool { return h.Provider == e.Name })
		if i < 0 {
			idle = append(idle, e.Name)
			continue
		}
		all[i].Deleted = false
	}
	tried, err := q.options.Ledger.Tried(ctx, idle)
	if err != nil {
		return nil, ledger.Unavailable(err)
	}
	for _, name := range idle {
		h := adminapi.ProviderHealth{Provider: name, State: adminapi.ProviderUntried}
		if slices.Contains(tried, name) {
			h.State = adminapi.ProviderUnused
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b adminapi.ProviderHealth) int { return strings.Compare(a.Provider, b.Provider) })
	return all, nil
}
