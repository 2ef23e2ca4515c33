package guard

import (
	"context"
	"fmt"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Try returns the names of the rules, "<guardrail>/<rule>", that find something in a text, whoever sends it, sorted.
func (rails Rails) Try(ctx context.Context, text string) ([]string, error) {
	var names []string
	work := NewWork()
	for _, r := range rails {
		for _, of := range r.rules {
			side := configv1.GuardSide_REQUESTS
			if !of.config.LooksIn(side) {
				side = configv1.GuardSide_ANSWERS
			}
			w := walk{set: &Set{rules: []*rule{of}}, work: work, side: side, masks: &Masks{}, findings: Findings{}}
			_, _, _ = w.judge(ctx, text, inText, spot{}) // the error only says that the rule refuses it
			if work.failure != nil {
				return nil, fmt.Errorf("%s: %w", of.name, work.failure)
			}
			if len(w.findings) > 0 {
				names = append(names, of.name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Names returns the names of the rules that look at texts or tools, sorted.
func (rails Rails) Names() []string {
	var names []string
	for _, r := range rails {
		for _, rule := range r.rules {
			if len(rule.finds) > 0 || rule.limitsTools() {
				names = append(names, rule.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// CompileObjects is Compile for the guardrails among objects of any kind.
func CompileObjects(objects []configv1.Object) (Rails, error) {
	var all []*configv1.Guardrail
	for _, o := range objects {
		if g, ok := o.(*configv1.Guardrail); ok {
			all = append(all, g)
		}
	}
	return Compile(all)
}
