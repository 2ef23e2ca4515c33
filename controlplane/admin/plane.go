package admin

import (
	"context"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// A Plane is the control plane that the API belongs to. It must be safe for concurrent use.
type Plane interface {
	// ObjectError returns why an object, or its last change, has no effect, and "" where it has.
	ObjectError(kind, name string) string
	// Keys returns every key by name, as they were last read, and at which revision; none before they were. They are
	// searched in, and not modified.
	Keys() (revision int64, keys map[string]configv1.Object)
	// DataPlane returns how those stand that are connected to any control plane of this etcd, without the version.
	DataPlane(ctx context.Context) adminapi.DataPlane
	// TestProvider asks a provider with its credential.
	TestProvider(ctx context.Context, p *configv1.Provider) (adminapi.ProviderTest, error)
}

func (s *server) dataPlane(w http.ResponseWriter, r *http.Request) error {
	d := s.config.Plane.DataPlane(r.Context())
	d.Version = s.config.Version
	return httpapi.WriteJSON(w, http.StatusOK, d)
}

// testProvider spends the operator's money at worst, and so takes the scope of those who may change the provider.
func (s *server) testProvider(w http.ResponseWriter, r *http.Request) error {
	entry, err := s.config.Store.Get(r.Context(), configv1.KindOf((*configv1.Provider)(nil)), r.PathValue("name"))
	if err != nil {
		return err
	}
	p, ok := entry.Object.(*configv1.Provider)
	if !ok {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.ProviderTest{Message: "The stored object cannot be read: " +
			entry.Err.Error()})
	}
	found, err := s.config.Plane.TestProvider(r.Context(), p)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, found)
}
