package admin

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// testIdentity says whether people can sign in with an identity provider. It shows no secret, but its errors say what
// the control plane reaches, and so it takes the scope of those who may change the provider.
func (s *server) testIdentity(w http.ResponseWriter, r *http.Request) error {
	entry, err := s.config.Store.Get(r.Context(), configv1.KindOf((*configv1.IdentityProvider)(nil)),
		r.PathValue("provider"))
	if err != nil {
		return err
	}
	p, ok := entry.Object.(*configv1.IdentityProvider)
	if !ok {
		err = entry.Err
	} else if s.config.Identity != nil {
		err = s.config.Identity.Test(r.Context(), p)
	}
	if err != nil {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.IdentityTest{Message: err.Error()})
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.IdentityTest{OK: true,
		Message: "The issuer is reached, and says what it should."})
}
