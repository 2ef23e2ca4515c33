package configv1

import (
	"errors"
	"strings"
)

var errNotBool = errors.New("must be true or false")

// IsOf reports whether a policy is for the requests of a key.
func (p *Policy) IsOf(key, organization, project string) bool {
	return (p.GetKey() == "" || p.GetKey() == key) &&
		(p.GetOrganization() == "" || p.GetOrganization() == organization) &&
		(p.GetProject() == "" || p.GetProject() == project)
}

func (v *validator) policy(p *Policy) {
	v.label("name", p.GetName())
	v.optionalID("organization", p.GetOrganization())
	v.optionalID("project", p.GetProject())
	v.optionalID("key", p.GetKey())
	if p.GetProject() != "" && p.GetOrganization() == "" {
		v.fail("project", "needs an organization")
	}
	if n := len(p.GetRules()); n == 0 || n > maxPolicyRules {
		v.fail("rules", "must be 1 to %d", maxPolicyRules)
	}
	names := make([]string, 0, len(p.GetRules()))
	for i, r := range p.GetRules() {
		at := element("rules", i)
		v.label(at+".name", r.GetName())
		v.text(at+".message", r.GetMessage())
		names = append(names, r.GetName())
		if len(r.GetDeny()) > maxExpression {
			v.fail(at+".deny", "must have at most %d bytes", maxExpression)
			continue
		}
		if _, err := r.Program(); err != nil {
			v.fail(at+".deny", "must be an expression in CEL: %s", firstLine(err.Error()))
		}
	}
	v.distinct("rules", names)
}

// firstLine returns the first line of a message. The others repeat the expression.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
