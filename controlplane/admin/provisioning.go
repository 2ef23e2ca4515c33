package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/controlplane/scim"
	"github.com/modelgate/modelgate/internal/id"
)

// provisioning serves SCIM to the clients of identity providers, each with the token of its provider.
func (s *server) provisioning() http.Handler {
	return scim.New(scim.Config{Admit: s.admitProvisioner, Read: s.people, Write: s.provision, Log: s.config.Log})
}

// admitProvisioner returns the context of a request, and the provider whose client sent it. No other principal may
// provision: not even the root token is bound to a provider.
func (s *server) admitProvisioner(w http.ResponseWriter, r *http.Request) (context.Context, string, error) {
	requestID := id.New("req")
	w.Header().Set("X-Request-Id", requestID)
	p, err := s.who.Principal(r)
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

// people returns the objects that SCIM is about.
func (s *server) people(ctx context.Context) ([]configv1.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var all []configv1.Object
	for _, o := range []configv1.Object{(*configv1.IdentityProvider)(nil), (*configv1.IdentityGroup)(nil),
		(*configv1.Account)(nil)} {
		entries, err := s.config.Store.List(ctx, configv1.KindOf(o))
		if err != nil {
			return nil, clientError(err)
		}
		for _, e := range entries {
			if e.Object != nil {
				all = append(all, e.Object)
			}
		}
	}
	return all, nil
}

// provision carries out what a SCIM client asked for.
func (s *server) provision(ctx context.Context, decide func([]configv1.Object) (scim.Change, error)) error {
	_, err := s.write(ctx, change{many: true}, func(p *plan) error {
		c, err := decide(p.objects(nil))
		if err != nil {
			return err
		}
		for _, o := range c.Delete {
			if err := p.remove(ref{configv1.KindOf(o), o.GetName()}); err != nil {
				return err
			}
		}
		for _, o := range c.Put {
			if err := p.put(o); err != nil {
				return err
			}
		}
		return nil
	})
	return clientError(err)
}

// followGroups has the roles of provisioned accounts follow from their groups, whoever changed these, their names or
// the mapping of the provider. A role that an author gives such an account has to be that one.
func (p *plan) followGroups() error {
	if !slices.ContainsFunc(p.changes, decidesRoles) {
		return nil
	}
	objects := p.objects(p.writes)
	providers, groups := map[string]*configv1.IdentityProvider{}, map[string]*configv1.IdentityGroup{}
	for _, o := range objects {
		switch o := o.(type) {
		case *configv1.IdentityProvider:
			providers[o.GetName()] = o
		case *configv1.IdentityGroup:
			groups[o.GetName()] = o
		}
	}
	var errs []error
	for _, o := range objects {
		a, ok := o.(*configv1.Account)
		if !ok || a.GetProvisioning() == nil {
			continue
		}
		due := proto.CloneOf(a)
		due.Role, due.Memberships = configv1.RightsOfProvisioned(providers[a.GetProvisioning().GetProvider()], groups, a)
		if !proto.Equal(due, a) {
			errs = append(errs, p.giveRights(a, due))
		}
	}
	return errors.Join(errs...)
}

// decidesRoles reports whether a change may change the role of somebody who is provisioned.
func decidesRoles(c adminapi.Change) bool {
	return c.Action != adminapi.Unchanged &&
		slices.Contains([]string{"Account", "IdentityGroup", "IdentityProvider"}, c.Kind)
}

// giveRights plans to store an account with the rights of its groups.
func (p *plan) giveRights(a, changed *configv1.Account) error {
	kind := configv1.KindOf(a)
	if p.planned(kind, a.GetName()) {
		if changed.GetRole() == a.GetRole() {
			return configv1.Errors{{Object: configv1.Label(a), Field: "memberships",
				Message: "must be those that the groups of the person give"}}
		}
		return configv1.Errors{{Object: configv1.Label(a), Field: "role",
			Message: fmt.Sprintf("must be %s, which the groups of the person give", changed.GetRole())}}
	}
	if err := p.mayWrite(changed, a); err != nil {
		return err
	}
	p.following = true
	defer func() { p.following = false }()
	return p.store(kind, changed, a, redact.Object(changed))
}
