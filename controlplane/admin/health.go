package admin

import (
	"net/http"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// health answers with the health of every configured provider, and of those that were in the last day.
func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	all, err := s.config.Ledger.Health(r.Context())
	if err != nil {
		return ledger.Unavailable(err)
	}
	entries, err := s.config.Store.List(r.Context(), configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.ContainsFunc(all, func(h adminapi.ProviderHealth) bool { return h.Provider == e.Name }) {
			all = append(all, adminapi.ProviderHealth{Provider: e.Name, State: adminapi.ProviderUnused})
		}
	}
	slices.SortFunc(all, func(a, b adminapi.ProviderHealth) int { return strings.Compare(a.Provider, b.Provider) })
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Health{Providers: all})
}
