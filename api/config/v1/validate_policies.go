package configv1

import (
	"strings"

	"github.com/modelgate/modelgate/api/config/expression"
)

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
		v.policyEffect(at, r)
		names = append(names, r.GetName())
		field, text := r.Expression()
		v.expression(at+"."+field, text)
	}
	v.distinct("rules", names)
}

// expression checks the text of an expression.
func (v *validator) expression(field, text string) {
	if len(text) > expression.MaxBytes {
		v.fail(field, "must have at most %d bytes", expression.MaxBytes)
	} else if _, err := expression.Program(text); err != nil {
		v.fail(field, "must be an expression in CEL: %s", firstLine(err.Error()))
	}
}

// when checks an expression that may be left out.
func (v *validator) when(text string) {
	if text != "" {
		v.expression("when", text)
	}
}

// policyEffect checks what a rule does: it refuses, or it chooses a model.
func (v *validator) policyEffect(at string, r *PolicyRule) {
	if r.GetWhen() == "" {
		if r.GetUseModel() != "" {
			v.fail(at+".use_model", "needs when, and not deny")
		}
		return
	}
	if r.GetDeny() != "" {
		v.fail(at+".when", "cannot be in a rule with deny")
	}
	if r.GetMessage() != "" {
		v.fail(at+".message", "is only for rules with deny")
	}
	v.modelName(at+".use_model", r.GetUseModel())
}

// firstLine returns the first line of a message. The others repeat the expression.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
