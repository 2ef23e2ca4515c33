// Package expression compiles the expressions (CEL) and measures the regular expressions of a configuration. Their
// work is bounded: tenants write them, and the gateway evaluates them for each request.
//
// Nothing else may call the compiler of CEL: its work grows with the cube of the depth of a type.
package expression

import (
	"errors"
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	celenv "cel.dev/cel-go/common/env"
)

const (
	// MaxBytes is the longest expression.
	MaxBytes = 4096
	// MaxCost bounds the work of an expression, in CEL's units: about a millisecond.
	MaxCost = 20_000

	maxDepth = 64   // of brackets, calls and operators within each other
	maxNodes = 2500 // of the syntax tree, with what macros become
	// maxTypes is how many types the type of a value may consist of: list(map(string, int)) has four.
	maxTypes = 16
	// maxLoops is how many comprehensions may stand within each other.
	maxLoops = 8
)

var errNotBool = errors.New("must be true or false")

// env is what expressions can use.
var env = sync.OnceValues(func() (*cel.Env, error) {
	standard := &celenv.LibrarySubset{ExcludeFunctions: []*celenv.Function{celenv.NewFunction("matches")}}
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(standard)), cel.EagerlyValidateDeclarations(true),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserExpressionSizeLimit(MaxBytes),
		cel.ExpressionNodeLimit(maxNodes),
		matches(),
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

// Program returns an expression that is true or false, ready to be evaluated. The error says where it is wrong.
func Program(text string, options ...cel.ProgramOption) (cel.Program, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("must have at most %d bytes", MaxBytes)
	}
	env, err := env()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	// The bounds come before the check of types, which is what takes long.
	if err := bounded(parsed.NativeRep()); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if checked.OutputType() != cel.BoolType {
		return nil, errNotBool
	}
	return env.Program(checked, append(options, cel.CostLimit(MaxCost), literalPatterns())...)
}

// bounded returns an error for a tree whose types or loops lie too deep within each other.
func bounded(tree *ast.AST) error {
	m := measure{types: map[string]int{"token": 4, "key": 3, "tools": 2}}
	m.of(tree.Expr(), 0)
	switch {
	case m.most > maxTypes:
		return fmt.Errorf("has lists, maps or types that lie too deep within each other: a type may consist of %d", maxTypes)
	case m.loops > maxLoops:
		return fmt.Errorf("has more than %d loops within each other", maxLoops)
	}
	return nil
}

// A measure is an upper bound of how many types the types of values consist of. The compiler would expand them.
type measure struct {
	types       map[string]int // of variables
	most, loops int
}

// of measures an expression that lies within so many loops. Once there is too much, it returns quickly.
func (m *measure) of(e ast.Expr, loops int) (types int) {
	if m.most > maxTypes || loops > maxLoops {
		m.loops = max(m.loops, loops)
		return 1
	}
	all := func(list []ast.Expr) (most int) {
		for _, e := range list {
			most = max(most, m.of(e, loops))
		}
		return most
	}
	types = 1
	switch e.Kind() {
	case ast.IdentKind:
		types = max(1, m.types[e.AsIdent()])
	case ast.SelectKind:
		types = m.of(e.AsSelect().Operand(), loops)
	case ast.CallKind:
		call := e.AsCall()
		if types = max(1, all(call.Args())); call.IsMemberFunction() {
			types = max(types, m.of(call.Target(), loops))
		}
		if call.FunctionName() == "type" {
			types++
		}
	case ast.ListKind:
		types = 1 + all(e.AsList().Elements())
	case ast.MapKind:
		keys, values := 0, 0
		for _, entry := range e.AsMap().Entries() {
			keys = max(keys, m.of(entry.AsMapEntry().Key(), loops))
			values = max(values, m.of(entry.AsMapEntry().Value(), loops))
		}
		types = 1 + keys + values
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			m.of(field.AsStructField().Value(), loops)
		}
	case ast.ComprehensionKind:
		types = m.loop(e.AsComprehension(), loops+1)
	}
	m.most, m.loops = max(m.most, types), max(m.loops, loops)
	return types
}

// loop measures a comprehension. Its variables hide others of the same name.
func (m *measure) loop(c ast.ComprehensionExpr, loops int) int {
	over := m.of(c.IterRange(), loops-1)
	defer m.hide(c.IterVar(), over)()
	if c.HasIterVar2() {
		defer m.hide(c.IterVar2(), over)()
	}
	made := m.of(c.AccuInit(), loops)
	defer m.hide(c.AccuVar(), made)()
	m.of(c.LoopCondition(), loops)
	m.types[c.AccuVar()] = max(made, m.of(c.LoopStep(), loops))
	return m.of(c.Result(), loops)
}

// hide gives a variable another type until what it returns is called.
func (m *measure) hide(name string, types int) (show func()) {
	before := m.types[name]
	m.types[name] = types
	return func() { m.types[name] = before }
}
