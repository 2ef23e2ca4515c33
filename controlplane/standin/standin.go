// Package standin refuses requests in place of stored objects that are not valid and have no known valid version:
// after an upgrade with narrower bounds, a restored backup, or damage. An object that restricts requests must not
// be out of force without notice.
//
// A kind that restricts what clients may do, or what it costs, belongs into For. Objects of other kinds give
// something, such as a key, a model or an issuer: without them there is less, and nothing has to stand in for them.
package standin

import (
	"cmp"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// For returns policies that refuse the requests to which invalid objects would apply. If the scope of an object
// is not known, they refuse all. A nil object is a value that cannot be read.
func For(invalid map[configstore.Ref]configv1.Object) (policies []*configv1.Policy) {
	for ref, o := range invalid {
		if p := standIn(ref, o); p != nil {
			policies = append(policies, p)
		}
	}
	slices.SortFunc(policies, func(a, b *configv1.Policy) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return policies
}

func standIn(ref configstore.Ref, object configv1.Object) *configv1.Policy {
	p := &configv1.Policy{}
	switch ref.Kind {
	case "Organization":
		p.Organization = ref.Name
	case "Project":
		p.Organization, p.Project, _ = strings.Cut(ref.Name, "/")
	case "Policy", "Guardrail":
		if off, ok := object.(interface{ GetDisabled() bool }); ok && off.GetDisabled() {
			return nil
		}
		if of, ok := object.(interface {
			GetOrganization() string
			GetProject() string
			GetKey() string
		}); ok {
			p.Organization, p.Project, p.Key = of.GetOrganization(), of.GetProject(), of.GetKey()
		}
	case "RateLimit":
		if limit, ok := object.(*configv1.RateLimit); ok {
			p.Organization = organizationOf(limit)
		}
	case "Catalog": // without its prices, budgets would hold for others
	default:
		return nil
	}
	p.Name = "invalid-" + strings.ToLower(ref.Kind) + "-" + ref.Name
	p.Rules = []*configv1.PolicyRule{{Name: "stored", Deny: "true", Message: "The " + ref.Kind + " '" + ref.Name +
		"' of this gateway is stored, but not valid, and so its requests are refused. Its operator has to correct it."}}
	return p
}

// organizationOf returns the organization that a limit is for, or "".
func organizationOf(l *configv1.RateLimit) string {
	if len(l.GetDescriptors()) != 1 {
		return ""
	}
	d := l.GetDescriptors()[0]
	if d.GetKey() != "organization" || strings.HasSuffix(d.GetValue(), "*") {
		return ""
	}
	return d.GetValue()
}
