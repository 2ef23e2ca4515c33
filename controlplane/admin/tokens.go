package admin

import (
	"net/http"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/id"
)

// createToken makes a token of administration and stores its hash. Nothing but the answer has the token itself.
func (s *server) createToken(w http.ResponseWriter, r *http.Request) error {
	// a TokenRequest has members of an AdminToken
	object, err := s.body(w, r, configv1.KindOf((*configv1.AdminToken)(nil)))
	if err != nil {
		return err
	}
	asked := object.(*configv1.AdminToken)
	if err := onlyChosen(asked, "display_name", "scopes", "expires_at", "identity_provider", "organization",
		"project"); err != nil {
		return err
	}
	if err := named(asked.GetDisplayName(), asked.GetExpiresAt(), time.Now()); err != nil {
		return err
	}
	caller, _ := authz.PrincipalOf(r.Context())
	asked.Name, asked.Owner = id.New(authz.TokenIDPrefix), caller.Person()
	token := authz.NewToken(asked.Name)
	hash := s.config.Hasher.Hash(token.Reveal())
	asked.Hash, asked.Hint = hash[:], auth.Hint(token)
	return s.make(w, r, change{refs: []ref{{configv1.KindOf(asked), asked.Name}}}, asked,
		adminapi.NewToken{ID: asked.Name, Token: token.Reveal()})
}
