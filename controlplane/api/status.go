package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// statusHandlers show how the gateway and what it depends on are.
type statusHandlers struct{ *server }

func (h statusHandlers) routes() []route {
	return []route{
		{pattern: "GET /admin/v1/attention", scope: authz.StatusRead, handler: h.attention},
		{pattern: "GET /admin/v1/health", scope: authz.StatusRead, handler: h.requireLedger(h.health)},
		{pattern: "GET /admin/v1/dataplane", scope: authz.StatusRead, handler: h.dataPlane},
		{pattern: "POST /admin/v1/identityproviders/{provider}/test", scope: authz.AdminsWrite, handler: h.testIdentity,
			timeout: 20 * time.Second},
	}
}

// health answers with the health of every configured provider, and of providers with traffic in the last day.
func (h statusHandlers) health(w http.ResponseWriter, r *http.Request) error {
	all, err := h.config.Ledger.Health(r.Context())
	if err != nil {
		return ledger.Unavailable(err)
	}
	entries, err := h.config.Store.List(r.Context(), configv1.KindOf((*configv1.Provider)(nil)))
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

// testIdentity says whether people can sign in with an identity provider. It shows no secret, but its errors say what
// the control plane reaches, and so it takes the scope of those who may change the provider.
func (h statusHandlers) testIdentity(w http.ResponseWriter, r *http.Request) error {
	entry, err := h.config.Store.Get(r.Context(), configv1.KindOf((*configv1.IdentityProvider)(nil)),
		r.PathValue("provider"))
	if err != nil {
		return err
	}
	p, ok := entry.Object.(*configv1.IdentityProvider)
	if !ok {
		err = entry.Err
	} else if h.config.Identity != nil {
		err = h.config.Identity.Test(r.Context(), p)
	}
	if err != nil {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.IdentityTest{Message: err.Error()})
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.IdentityTest{OK: true,
		Message: "The issuer is reached, and says what it should."})
}

func (h statusHandlers) dataPlane(w http.ResponseWriter, r *http.Request) error {
	d := h.config.Plane.DataPlane(r.Context())
	d.Version = h.config.Version
	return httpapi.WriteJSON(w, http.StatusOK, d)
}

func (h statusHandlers) attention(w http.ResponseWriter, r *http.Request) error {
	answer, err := h.queries.Attention(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, answer)
}
