package configv1

import (
	"cel.dev/cel-go/cel"

	"github.com/modelgate/modelgate/api/config/expression"
	"github.com/modelgate/modelgate/api/config/options"
)

// Expression returns the rule's expression, and the field that has it.
func (r *PolicyRule) Expression() (field, text string) {
	if r.GetWhen() != "" {
		return "when", r.GetWhen()
	}
	return "deny", r.GetDeny()
}

// Program returns the rule's expression, ready to be evaluated. The error says where it is wrong.
func (r *PolicyRule) Program(options ...cel.ProgramOption) (cel.Program, error) {
	_, text := r.Expression()
	return expression.Program(text, options...)
}

// Program returns the expression for the requests that the guardrail applies to; nil if it applies to all.
func (g *Guardrail) Program() (cel.Program, error) {
	if g.GetWhen() == "" {
		return nil, nil
	}
	return expression.Program(g.GetWhen())
}

// WhenDescriptor is the key of the descriptor that has the expression of a RateLimit in its value, above all others,
// as the ext_proc service gets them. No request has such an entry.
const WhenDescriptor = "when"

// Program returns the expression for the requests that the limit is for; nil if it is for all.
func (r *RateLimit) Program() (cel.Program, error) {
	if r.GetWhen() == "" {
		return nil, nil
	}
	return expression.Program(r.GetWhen())
}

func (r *PolicyRule) check(v *validator) {
	field, text := r.Expression()
	v.form(field, options.Form_EXPRESSION, text)
	if r.GetWhen() == "" {
		if r.GetUseModel() != "" {
			v.fail("use_model", "needs when, and not deny")
		}
		return
	}
	if r.GetDeny() != "" {
		v.fail("when", "cannot be in a rule with deny")
	}
	if r.GetMessage() != "" {
		v.fail("message", "is only for rules with deny")
	}
	v.form("use_model", options.Form_MODEL, r.GetUseModel())
}
