package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/password"
)

// permission says what the caller of a plan may do.
type permission struct{ *Plan }

func (p *Plan) permission() permission { return permission{p} }

// mayWrite returns the error of a caller who would give rights that are not theirs, or meddle with somebody who has
// more of them. Either object may be nil.
func (p permission) mayWrite(objects ...configv1.Object) error {
	if p.caller.As == accounts.Person {
		return nil // maySet lets them change their password and nothing else
	}
	for _, o := range objects {
		for _, scope := range authz.RightsOf(o) {
			if !p.caller.MayGive(scope) {
				return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: %s has the scope %s, which you do not have.",
					configv1.Label(o), scope)
			}
		}
	}
	return nil
}

// mayReach returns the error of a caller who would have the gateway hand over what is its own: a file of the control
// plane, a secret in Vault or its own settings sent to an endpoint, a stored credential sent to another endpoint than
// it was stored for, or a Unix socket, behind which etcd and the like trust whoever connects. What is stored already
// stays.
func (p permission) mayReach(o, stored configv1.Object) error {
	if p.caller.May(authz.Everything) {
		return nil
	}
	was := places(stored)
	for field, place := range places(o) {
		if place != "" && place != was[field] {
			return everythingFor(field, "to name a Unix socket or a file of the gateway's machines")
		}
	}
	kept := credentialsOf(stored)
	for _, c := range configv1.Credentials(o) {
		source, name := c.Credential.Named()
		own := source != "" && source != "env" || source == "env" && isOwn(name)
		if own && !proto.Equal(c.Credential, kept[c.Field]) {
			return everythingFor(c.Field,
				"to name a file or an identity of the control plane, a secret in Vault or in a secret manager, or a variable that begins with MODELGATE_, PG or OTEL_,")
		}
	}
	return p.mayMove(o, stored)
}

// isOwn reports whether a variable is one of the control plane's own: PostgreSQL's client reads those that begin
// with PG, and variables that begin with OTEL_ may contain the key of the telemetry endpoint.
func isOwn(variable string) bool {
	return strings.HasPrefix(variable, "MODELGATE_") || strings.HasPrefix(variable, "PG") ||
		strings.HasPrefix(variable, "OTEL_")
}

func everythingFor(field, what string) error {
	return openai.CodeInsufficientPermissions.On(field, "You have insufficient permissions for this operation: %s takes the scope *. Leave it unchanged, or give the credential again, as value.",
		what)
}

func endpointOf(o configv1.Object) string {
	p, _ := o.(*configv1.Provider)
	return p.GetEndpoint()
}

// places returns the Unix sockets, and the files that are no credentials, which an object, which may be nil, names, by
// field.
func places(o configv1.Object) map[string]string {
	named := map[string]string{"endpoint": endpointOf(o)}
	if jobs, ok := o.(*configv1.JobService); ok {
		named["address"], named["listen"] = jobs.GetAddress(), jobs.GetListen()
	}
	maps.DeleteFunc(named, func(_, url string) bool { return !strings.HasPrefix(strings.ToLower(url), "unix:") })
	switch o := o.(type) {
	case *configv1.Certificate:
		named["chain_file"] = o.GetChainFile()
	case *configv1.JobService:
		named["tls.ca_file"] = o.GetTls().GetCaFile()
	}
	return named
}

// usePassword makes the password of an account that is the stored one no change.
func usePassword(o, stored configv1.Object) {
	account, ok := o.(*configv1.Account)
	if !ok || account.GetPassword() == "" {
		return
	}
	if was, ok := stored.(*configv1.Account); ok && password.Verify(was.GetPasswordHash(), account.GetPassword()) {
		account.Password, account.PasswordHash = "", was.GetPasswordHash()
	}
}

// hashPassword replaces the password of an account.
func hashPassword(o configv1.Object) error {
	account, ok := o.(*configv1.Account)
	if !ok || account.GetPassword() == "" {
		return nil
	}
	hash, err := password.Hash(account.GetPassword())
	if err != nil {
		return err
	}
	account.Password, account.PasswordHash = "", hash
	return nil
}

// checkOwners refuses a plan that takes away the last account that may do everything and can sign in.
func (p *Plan) checkOwners() error {
	isOwner := func(o configv1.Object) bool {
		a, ok := o.(*configv1.Account)
		return ok && a.GetRole() == configv1.Role_OWNER && !a.Barred() && a.GetPasswordHash() != ""
	}
	if !slices.ContainsFunc(p.objects(nil), isOwner) || slices.ContainsFunc(p.objects(p.writes), isOwner) {
		return nil
	}
	return openai.CodeLastOwner.New("This is the last account with the role OWNER that can sign in. Create another one first.")
}

// holderOf returns the stored object that an object inherits from. An account that somebody else takes over inherits
// nothing.
func holderOf(o, stored configv1.Object) configv1.Object {
	if a, was := asAccount(o), asAccount(stored); a != nil && was != nil && accounts.NewHolder(was, a) {
		return nil
	}
	return stored
}

func asAccount(o configv1.Object) *configv1.Account {
	a, _ := o.(*configv1.Account)
	return a
}

// noteTenant notes in an account whose people made it or gave its password. With rights outside that tenant, the
// account needs a password that they do not know. If it has none, it stays one that people of a tenant have made,
// however they widen it.
func (p permission) noteTenant(o, stored configv1.Object) error {
	a, was, by := asAccount(o), asAccount(stored), p.caller.Authority()
	if a == nil {
		return nil
	}
	switch given := a.GetPassword() != ""; {
	case by == accounts.Tenant && (was == nil || given || was.GetTenant() != "" && a.GetPasswordHash() == ""):
		a.Tenant = p.caller.Tenant.String()
	case by == accounts.Operator && given, accounts.NewHolder(was, a):
		a.Tenant = ""
	default:
		a.Tenant = was.GetTenant()
	}
	if a.GetTenant() == "" || a.GetPasswordHash() == "" || !accounts.Beyond(a) {
		return nil
	}
	return configv1.Errors{{Object: configv1.Label(a), Field: "password", Message: fmt.Sprintf(
		"must be given anew together with rights outside %s, whose people may know the present one", a.GetTenant())}}
}

// maySet decides on the fields of an account by the accounts table, and returns the audit log's text about the
// rights that an earlier holder loses.
func (p permission) maySet(o, stored configv1.Object) (lost string, err error) {
	a, was := asAccount(o), asAccount(stored)
	if a == nil || p.following {
		return "", nil
	}
	w := accounts.Write{By: p.caller.Authority(), Everything: p.caller.May(authz.Everything),
		Was: p.people().origin(a, was), Now: a}
	field, why := w.Refused()
	if w.By == accounts.Person && a.GetName() != p.caller.Name {
		field, why = "name", "the account is of somebody else"
	}
	if why != "" {
		return "", openai.CodeInsufficientPermissions.On(field, "You have insufficient permissions for this operation: %s.",
			why)
	}
	if was == nil || !accounts.NewHolder(was, a) {
		return "", nil
	}
	var tokens []string
	for _, t := range p.people().tokensOf(a.GetName()) {
		tokens = append(tokens, t.GetName())
	}
	return accounts.Lost(was, a, tokens), nil
}

// origin returns the account that an account was before: under another name, if a directory renames it.
func (p people) origin(a, stored *configv1.Account) *configv1.Account {
	id := a.GetProvisioning().GetId()
	if p.caller.As != accounts.Directory || id == "" || id == stored.GetProvisioning().GetId() {
		return stored
	}
	for _, e := range p.before.Entries {
		if was := asAccount(e.Object); was.GetProvisioning().GetId() == id {
			return was
		}
	}
	return stored
}

// tokensOf returns the tokens that an account has made, and that the plan does not change already.
func (p people) tokensOf(account string) []*configv1.AdminToken {
	if p.tokens == nil {
		p.tokens = map[string][]*configv1.AdminToken{}
		for _, e := range p.before.Entries {
			if t, ok := e.Object.(*configv1.AdminToken); ok {
				p.tokens[t.GetOwner()] = append(p.tokens[t.GetOwner()], t)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(p.tokens[account]), func(t *configv1.AdminToken) bool {
		return p.planned(configv1.KindOf(t), t.GetName())
	})
}

// succeed plans what a new holder of an account does to what an earlier one has left: its tokens are deleted, and the
// changes that it has asked for end. The tokens of an account that is renamed go with it.
func (p people) succeed(o, stored configv1.Object) error {
	a, was := asAccount(o), asAccount(stored)
	if a == nil || !accounts.NewHolder(was, a) {
		return nil
	}
	p.holders = append(p.holders, a.GetName())
	for _, t := range p.tokensOf(a.GetName()) {
		if p.caller.Authority() == accounts.Tenant {
			return authz.NotForTenant(p.caller.Tenant) // the tokens are not theirs to touch, so the name is not free
		}
		if err := p.remove(Ref{configv1.KindOf(t), t.GetName()}); err != nil {
			return err
		}
	}
	before := p.origin(a, was).GetName()
	if before == "" || before == a.GetName() {
		return nil
	}
	p.holders = append(p.holders, before)
	for _, t := range p.tokensOf(before) {
		if err := p.giveToken(t, a.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// giveToken plans to note another account as the one that has made a token.
func (p people) giveToken(t *configv1.AdminToken, owner string) error {
	now := proto.CloneOf(t)
	now.Owner = owner
	return p.store(configv1.KindOf(t), now, t, redact.Object(now))
}

// ofHolders reports whether a change was asked for by the earlier holder of an account that has a new one.
func (p *Plan) ofHolders(w *approvalRequest) bool {
	return slices.Contains(p.holders, w.AskedBy) || w.Person != "" && slices.Contains(p.holders, w.Person)
}
