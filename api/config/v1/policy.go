package configv1

import (
	"sync"

	"cel.dev/cel-go/cel"
)

const (
	maxPolicyRules = 100
	maxExpression  = 4096 // bytes
	// maxPolicyClaims is how many claims of a token policies may see.
	maxPolicyClaims = 8
	// maxCost bounds the work of an expression, in CEL's units: about a millisecond.
	maxCost = 20_000
)

// policyEnv is what expressions of policies can use.
var policyEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("key", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("user", cel.StringType),
		cel.Variable("token", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("model", cel.StringType),
		cel.Variable("operation", cel.StringType),
		cel.Variable("stream", cel.BoolType),
		cel.Variable("tools", cel.ListType(cel.StringType)),
		cel.Variable("size", cel.IntType),
		cel.Variable("address", cel.StringType),
		cel.Variable("now", cel.TimestampType),
	)
})

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
	return program(text, options...)
}

// Program returns the expression for the requests that the guardrail applies to; nil if it applies to all.
func (g *Guardrail) Program() (cel.Program, error) {
	if g.GetWhen() == "" {
		return nil, nil
	}
	return program(g.GetWhen())
}

// WhenDescriptor is the key of the descriptor that has the expression of a RateLimit in its value, above all others,
// as the ext_proc service gets them. No request has such an entry.
const WhenDescriptor = "when"

// Program returns the expression for the requests that the limit is for; nil if it is for all.
func (r *RateLimit) Program() (cel.Program, error) {
	if r.GetWhen() == "" {
		return nil, nil
	}
	return program(r.GetWhen())
}

func program(text string, options ...cel.ProgramOption) (cel.Program, error) {
	env, err := policyEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if ast.OutputType() != cel.BoolType {
		return nil, errNotBool
	}
	return env.Program(ast, append(options, cel.CostLimit(maxCost))...)
}
