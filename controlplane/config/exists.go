package config

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// checkVariables refuses an object that names a variable which this control plane does not have: it would have no
// effect before the process is started anew. What is stored already stays, and so does what is disabled.
func (s *Service) checkVariables(o, stored configv1.Object) error {
	if d, ok := o.(interface{ GetDisabled() bool }); s.options.Variable == nil || ok && d.GetDisabled() {
		return nil
	}
	kept := credentialsOf(stored)
	var errs configv1.Errors
	for _, c := range configv1.Credentials(o) {
		name := c.Credential.GetEnv()
		if name == "" || proto.Equal(c.Credential, kept[c.Field]) {
			continue
		}
		if value, _ := s.options.Variable(name); strings.TrimSpace(value) == "" {
			errs = append(errs, configv1.FieldError{Object: configv1.Label(o), Field: c.Field + ".env",
				Message: fmt.Sprintf(
					"the control plane has no environment variable %s, or it is empty: set it and restart the control plane, or give the credential as value or file", name)})
		}
	}
	return errs.Err()
}

// tenantsOf returns the objects that carry the limits and budgets of a key's tenant. A project without an organization
// has none.
func tenantsOf(k *configv1.Key) []Ref {
	if k.GetOrganization() == "" {
		return nil
	}
	refs := []Ref{{configv1.KindOf((*configv1.Organization)(nil)), k.GetOrganization()}}
	if k.GetProject() != "" {
		refs = append(refs, Ref{configv1.KindOf((*configv1.Project)(nil)), k.GetOrganization() + "/" + k.GetProject()})
	}
	return refs
}

// checkTenants returns which objects of the plan would reach into organizations or projects that there are not: no
// budget would hold for a key of one that is spelled wrong, and one that is made later would let others in. What an
// object has already may stay. The groups of a provider are checked with their mapping.
func (p *Plan) checkTenants() (errs configv1.Errors) {
	for _, c := range p.writes {
		if c.Object == nil || p.caller.As == accounts.Directory || p.caller.As == accounts.SignIn ||
			asAccount(c.Object).GetProvisioning() != nil {
			continue
		}
		was := reachesOf(p.stored(c.Kind, c.Name))
		for _, t := range reachesOf(c.Object) {
			if p.Entry(t.Kind, t.Name) != nil || slices.ContainsFunc(was, func(o reach) bool {
				return o.Kind.Name == t.Kind.Name && o.Name == t.Name
			}) {
				continue
			}
			message := "there is no %s %s, and one that is made later would be reached by it: create it first, or in the same change"
			if c.Kind.Name == configv1.KeyKind().Name {
				message = "there is no %s %s, so none of its limits and budgets would apply: create it first, or create it together with the key (create_missing=true, --create-missing)"
			}
			errs = append(errs, configv1.FieldError{Object: configv1.Label(c.Object), Field: t.field,
				Message: fmt.Sprintf(message, t.Kind.Name, t.Name)})
		}
	}
	return errs
}

// A reach is an organization or a project into which an object reaches, and the field that says so.
type reach struct {
	Ref
	field string
}

// reachesOf returns the tenants that an object reaches: the key's own, those in which it gives rights, or those whose
// jobs it reports.
func reachesOf(o configv1.Object) (all []reach) {
	add := func(at, organization, project string) {
		for _, t := range tenantsOf(&configv1.Key{Organization: organization, Project: project}) {
			all = append(all, reach{t, at + strings.ToLower(t.Kind.Name)})
		}
	}
	switch o := o.(type) {
	case *configv1.Key:
		add("", o.GetOrganization(), o.GetProject())
	case *configv1.Account:
		for i, m := range o.GetMemberships() {
			add(fmt.Sprintf("memberships[%d].", i), m.GetOrganization(), m.GetProject())
		}
	case *configv1.AdminToken:
		add("", o.GetOrganization(), o.GetProject())
	case *configv1.IdentityProvider:
		for i, r := range o.GetRoles() {
			add(fmt.Sprintf("roles[%d].", i), r.GetOrganization(), r.GetProject())
		}
	case *configv1.Webhook:
		add("", o.GetOrganization(), o.GetProject())
	}
	return all
}

// checkEmpty refuses to delete an organization or a project that has keys: they would go on without its limits and
// budgets, and also if it is disabled.
func (s *Service) checkEmpty(ctx context.Context, of Ref) error {
	switch of.Kind.New().(type) {
	case *configv1.Organization, *configv1.Project:
	default:
		return nil
	}
	organization, project, _ := strings.Cut(of.Name, "/")
	asked := adminapi.ListOptions{Limit: 1, Filters: map[string]string{"organization": organization, "project": project}}
	keys, _, err := s.search(ctx, configv1.KeyKind(), asked, wantedOf(configv1.KeyKind(), asked))
	if err != nil || len(keys) == 0 {
		return err
	}
	return openai.CodeInUse.New(
		"%s %s still has keys, such as %s. Without it, no limits and budgets would apply to them. Revoke the keys or move them first.", of.Kind.Name, of.Name, keys[0].Name)
}

// checkLeft refuses to delete an organization or a project within which an object still gives rights, or has jobs
// reported: another one of the same name would have them.
func (p *Plan) checkLeft() error {
	for _, c := range p.writes {
		switch c.Kind.New().(type) {
		case *configv1.Organization, *configv1.Project:
		default:
			continue
		}
		if c.Object != nil {
			continue
		}
		organization, project := authz.SplitProject(c.Name)
		for _, o := range p.objects(p.writes) {
			if reachesInto(o, authz.Tenant{Organization: organization, Project: project}) {
				return openai.CodeInUse.New("%s still reaches into %s %s, and into another one that has its name later. Change or delete it first.",
					configv1.Label(o), c.Kind.Name, c.Name)
			}
		}
	}
	return nil
}

// reachesInto reports whether an object gives somebody rights within a tenant, or tells somebody of its jobs. Keys are
// looked for elsewhere: see checkEmpty.
func reachesInto(o configv1.Object, t authz.Tenant) bool {
	if _, isKey := o.(*configv1.Key); isKey {
		return false
	}
	return slices.ContainsFunc(reachesOf(o), func(r reach) bool {
		if r.Kind.Name == configv1.KindOf((*configv1.Organization)(nil)).Name {
			return t.Has(r.Name, "")
		}
		return t.Has(authz.SplitProject(r.Name))
	})
}

// createTenants plans to make the organization and the project of a key if they are missing, without limits.
func (p *Plan) createTenants(k *configv1.Key) error {
	for _, t := range tenantsOf(k) {
		if p.Entry(t.Kind, t.Name) != nil {
			continue
		}
		var o configv1.Object = &configv1.Organization{Name: t.Name}
		if strings.Contains(t.Name, "/") {
			o = &configv1.Project{Name: t.Name}
		}
		if err := p.put(o); err != nil {
			return err
		}
	}
	return nil
}
