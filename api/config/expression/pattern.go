package expression

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const (
	// MaxSteps is the largest regular expression, in steps of its program: a character is one step, and a
	// repetition has the steps of its content, as often as it may occur. All literal patterns of one expression
	// together have no more steps.
	MaxSteps = 10_000
	// maxMadeSteps and maxMadeBytes are for one that an expression makes of the values of a request: it is compiled for
	// each request.
	maxMadeSteps = 100
	maxMadeBytes = 1000
)

// Steps returns the size of a regular expression in RE2's syntax, without compiling it.
func Steps(pattern string) (int, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return steps(parsed), nil
}

const most = 1 << 30

func steps(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(most, n+steps(sub))
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		times := re.Max
		if times < 0 {
			times = re.Min + 1
		}
		n = min(most, (n+1)*max(times, 1))
	}
	return n + 1
}

var errTooLarge = fmt.Errorf("is a regular expression that is too large: it may have %d steps, each character and each repetition of it being one", MaxSteps)

// literalPatterns compiles regular expressions that are literals once, rather than for each request.
func literalPatterns() cel.ProgramOption {
	left := MaxSteps
	return cel.OptimizeRegex(&interpreter.RegexOptimization{Function: "matches", RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
			n, _ := Steps(pattern)
			if left -= n; left < 0 {
				return nil, errTooLarge
			}
			compiled, err := regexp.Compile(pattern)
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(),
				func(values ...ref.Val) ref.Val {
					if err != nil {
						return types.WrapErr(err)
					}
					text, ok := values[0].(types.String)
					if !ok {
						return types.MaybeNoSuchOverloadErr(values[0])
					}
					return types.Bool(compiled.MatchString(string(text)))
				}), nil
		}})
}

// matches is the function of CEL, which bounds the patterns that a request compiles.
func matches() cel.EnvOption {
	binding := cel.SingletonBinaryBinding(func(text, pattern ref.Val) ref.Val {
		t, isText := text.(types.String)
		p, isPattern := pattern.(types.String)
		if !isText || !isPattern {
			return types.MaybeNoSuchOverloadErr(pattern)
		}
		size := maxMadeSteps + 1
		var err error
		if len(p) <= maxMadeBytes {
			size, err = Steps(string(p))
		}
		if err != nil {
			return types.WrapErr(err)
		} else if size > maxMadeSteps {
			return types.NewErr("a regular expression that is made for a request may have %d steps", maxMadeSteps)
		}
		compiled, err := regexp.Compile(string(p))
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Bool(compiled.MatchString(string(t)))
	})
	both := []*cel.Type{cel.StringType, cel.StringType}
	return cel.Function("matches", cel.Overload("matches", both, cel.BoolType),
		cel.MemberOverload("matches_string", both, cel.BoolType), binding)
}
