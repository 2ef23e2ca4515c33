package guard

import (
	"context"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/offered"
)

// LimitsTools reports whether a rule lists the tools that a request may offer. A nil set has none.
func (s *Set) LimitsTools() bool {
	return s != nil && slices.ContainsFunc(s.rules, (*rule).limitsTools)
}

func (r *rule) limitsTools() bool { return len(r.config.GetAllowedTools()) > 0 }

// Tools looks at tools that a request offers, and adds to the findings each that a rule does not list. It returns
// the rule that refuses the request, or "". The error comes from ctx or work, or is an *Unjudged.
func (s *Set) Tools(ctx context.Context, work *Work, tools []offered.Tool, findings Findings) (blocked string,
	err error) {
	for _, r := range s.rules {
		if !r.limitsTools() {
			continue
		}
		for i := range tools {
			if err := work.of(r).Spend(ctx, 2*r.allowed*(len(tools[i].Name)+1)); err != nil { // what Matches takes at most
				if err = work.end(r, err); err != nil {
					return "", err
				}
				break
			}
			if tools[i].Matches(r.allows) {
				continue
			}
			findings.add(r, SideRequest)
			if r.config.GetMode() == configv1.GuardMode_BLOCK {
				return r.name, nil
			}
		}
	}
	work.note(findings, SideRequest)
	return "", nil
}

// allows reports whether the rule lists a tool.
func (r *rule) allows(name string) bool {
	return slices.ContainsFunc(r.config.GetAllowedTools(), func(p string) bool { return configv1.Matches(p, name) })
}

// TryTools returns the names of the rules that do not list what a request has a vendor do, whoever sends it, sorted.
func (rails Rails) TryTools(l *offered.List) []string {
	var names []string
	for _, r := range rails {
		for _, rule := range r.rules {
			if l != nil && rule.limitsTools() && slices.ContainsFunc(l.Tools,
				func(t offered.Tool) bool { return !t.Matches(rule.allows) }) {
				names = append(names, rule.name)
			}
		}
	}
	slices.Sort(names)
	return names
}
