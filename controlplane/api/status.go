package api

import (
	"context"
	"net/http"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/queries"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// statusHandlers show how the gateway and what it depends on are.
type statusHandlers struct{ *server }

func (h statusHandlers) routes() []route {
	return []route{
		{operation: onCatalogue(h.catalogue), scope: authz.ConfigRead},
		{operation: onAttention(h.queries.Attention), scope: authz.StatusRead},
		{operation: onHealth(h.health), scope: authz.StatusRead, needs: h.hasLedger},
		{operation: onDataPlane(h.dataPlane), scope: authz.StatusRead},
		{operation: onTestIdentity(h.testIdentity), scope: authz.AdminsWrite, timeout: 20 * time.Second},
	}
}

// catalogue answers with the models that the gateway knows, as far as they are asked for.
func (h statusHandlers) catalogue(w http.ResponseWriter, r *http.Request) error {
	o, err := optionsOf(r)
	if err != nil {
		return err
	}
	served, err := boolOf(r, "served")
	if err != nil {
		return err
	}
	all, err := queries.Catalogue(r.Context(), h.config.Store, queries.CatalogueFilter{Words: o.Query,
		Vendor: o.Filters["vendor"], Capability: o.Filters["capability"], Served: served})
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, all)
}

// health answers with the health of every configured provider, and of providers with traffic in the last day.
func (h statusHandlers) health(ctx context.Context) (adminapi.Health, error) {
	all, err := h.queries.Health(ctx)
	return adminapi.Health{Providers: all}, err
}

// testIdentity says whether people can sign in with an identity provider. It shows no secret, but its errors say what
// the control plane reaches, and so it takes the scope of those who may change the provider.
func (h statusHandlers) testIdentity(ctx context.Context, name string) (adminapi.IdentityTest, error) {
	entry, err := h.config.Store.Get(ctx, configv1.KindOf((*configv1.IdentityProvider)(nil)), name)
	if err != nil {
		return adminapi.IdentityTest{}, err
	}
	p, ok := entry.Object.(*configv1.IdentityProvider)
	if !ok {
		return identityTest(entry.Err), nil
	}
	if h.config.Identity == nil {
		return identityTest(nil), nil
	}
	return identityTest(h.config.Identity.Test(ctx, p)), nil
}

// identityTest says what came of a test that found an error, or nil.
func identityTest(found error) adminapi.IdentityTest {
	if found != nil {
		return adminapi.IdentityTest{Message: found.Error()}
	}
	return adminapi.IdentityTest{OK: true, Message: "The issuer is reached, and says what it should."}
}

func (h statusHandlers) dataPlane(ctx context.Context) (adminapi.DataPlane, error) {
	d := h.config.Plane.DataPlane(ctx)
	d.Version = h.config.Version
	return d, nil
}
