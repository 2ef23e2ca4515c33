package configv1

import (
	"sync"

	"cel.dev/cel-go/cel"
)

const (
	maxPolicyRules = 100
	maxExpression  = 4096 // bytes
	// maxCost bounds the work of an expression, in CEL's units: about a millisecond.
	maxCost = 20_000
)

// policyEnv is what expressions of policies can use.
var policyEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("key", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("user", cel.StringType),
		cel.Variable("model", cel.StringType),
		cel.Variable("operation", cel.StringType),
		cel.Variable("stream", cel.BoolType),
		cel.Variable("tools", cel.ListType(cel.StringType)),
		cel.Variable("size", cel.IntType),
		cel.Variable("address", cel.StringType),
		cel.Variable("now", cel.TimestampType),
	)
})

// Program returns the rule's expression, ready to be evaluated. The error says where it is wrong.
func (r *PolicyRule) Program() (cel.Program, error) {
	env, err := policyEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(r.GetDeny())
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if ast.OutputType() != cel.BoolType {
		return nil, errNotBool
	}
	return env.Program(ast, cel.CostLimit(maxCost))
}
