package configv1

import (
	"cel.dev/cel-go/cel"

	"github.com/modelgate/modelgate/api/config/expression"
)

const (
	maxPolicyRules = 100
	// maxPolicyClaims is how many claims of a token policies may see.
	maxPolicyClaims = 8
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
