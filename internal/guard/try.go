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
		for _, rule := range r.rules {
			var found []span
			for i := range rule.finds {
				var err error
				if found, err = rule.finds[i].add(ctx, work.of(rule), found, text, rule); err != nil {
					return nil, fmt.Errorf("%s: %w", rule.name, err)
				}
			}
			if len(found) > 0 {
				names = append(names, rule.name)
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
