package policy

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Trial tells the decisions of policies on requests with some unknown facts.
type Trial struct{ policies Policies }

// A Verdict is one rule's decision on a request.
type Verdict struct {
	Rule    string // "<policy>/<rule>"
	Observe bool   // the rule does nothing
	Model   string // that the rule chooses; empty: it refuses the request
	Failed  bool   // the expression fails, which refuses the request
	// Unknown are the facts on which the result depends and that are not known, such as "tools" or "key.name". Empty: the
	// rule surely applies.
	Unknown []string
}

// NewTrial compiles policies for a trial. It calls piece before each. The error is piece's, or names the policy
// that is wrong.
func NewTrial(configs []*configv1.Policy, piece func() error) (*Trial, error) {
	t := &Trial{}
	for _, c := range configs {
		if err := piece(); err != nil {
			return nil, err
		}
		made, err := compile([]*configv1.Policy{c}, cel.EvalOptions(cel.OptPartialEval))
		if err != nil {
			return nil, err
		}
		t.policies = append(t.policies, made...)
	}
	return t, nil
}

// Judge returns the verdicts of the rules that apply to a request, or may, up to the first that surely refuses it.
// Unknown names the facts that are not known.
func (t *Trial) Judge(f *Facts, unknown []string) ([]Verdict, error) {
	patterns := make([]*cel.AttributePatternType, len(unknown))
	for i, name := range unknown {
		variable, member, isMember := strings.Cut(name, ".")
		if patterns[i] = cel.AttributePattern(variable); isMember {
			patterns[i].QualString(member)
		}
	}
	values, err := cel.PartialVars(f.values(), patterns...)
	if err != nil {
		return nil, fmt.Errorf("preparing the facts of a request: %w", err)
	}
	var all []Verdict
	chosen := false
	for _, p := range t.policies {
		if !configv1.Covers(p.config, f.Client()) {
			continue
		}
		for _, r := range p.rules {
			chooses := r.config.GetUseModel() != ""
			if chooses && chosen {
				continue
			}
			out, err := f.evaluate(r.fits, values)
			missing, isUnknown := out.(*types.Unknown)
			if err == nil && !isUnknown && out.Value() != true {
				continue
			}
			v := Verdict{Rule: r.name, Observe: r.config.GetObserve(), Failed: err != nil}
			if err == nil {
				v.Model = r.config.GetUseModel()
			}
			if isUnknown && err == nil {
				v.Unknown = factsOf(missing)
			}
			all = append(all, v)
			switch {
			case v.Observe || len(v.Unknown) > 0:
			case v.Model != "":
				chosen = true
			default:
				return all, nil
			}
		}
	}
	return all, nil
}

// factsOf names what is not known, in the order of the alphabet.
func factsOf(missing *types.Unknown) []string {
	var names []string
	for _, id := range missing.IDs() {
		trails, _ := missing.GetAttributeTrails(id)
		for _, t := range trails {
			names = append(names, t.String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
