package api

import (
	"context"
	"net/http"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/scim"
	"github.com/modelgate/modelgate/internal/id"
)

// scimHandlers serve SCIM.
type scimHandlers struct{ *server }

// provisioning serves SCIM to the clients of identity providers, each with the token of its provider.
func (h scimHandlers) provisioning() http.Handler {
	return scim.New(scim.Config{Admit: h.admitProvisioner, Read: h.people, Write: h.provision, Log: h.config.Log})
}

// admitProvisioner returns the context of a request, and the provider whose client sent it. No other principal may
// provision: not even the root token is bound to a provider.
func (h scimHandlers) admitProvisioner(w http.ResponseWriter, r *http.Request) (context.Context, string, error) {
	requestID := id.New("req")
	w.Header().Set("X-Request-Id", requestID)
	p, err := h.who.Principal(r)
	if err == nil && p.Provider == "" {
		err = &openai.Error{Status: http.StatusForbidden, Message: "SCIM takes a token with the scope scim. Make one with: modelgate token create --scopes scim --identity-provider NAME"}
	}
	if err != nil {
		return nil, "", clientError(err)
	}
	// As at a sign-in, the provider gives the roles, within what the configuration lets it give.
	p.Role, p.Scopes, p.As = "scim", authz.ScopesOf(configv1.Role_OWNER), accounts.Directory
	return authz.WithPrincipal(authz.WithRequestID(r.Context(), requestID), p), p.Provider, nil
}

func (h scimHandlers) people(ctx context.Context) ([]configv1.Object, error) {
	all, err := h.changes.People(ctx)
	return all, clientError(err)
}

func (h scimHandlers) provision(ctx context.Context, decide func([]configv1.Object) (scim.Change, error)) error {
	return clientError(h.changes.Provision(ctx, decide))
}
