// Package policy decides by the expressions of policies whether a request is refused.
package policy

import (
	"fmt"
	"time"

	"cel.dev/cel-go/cel"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Policies are those of a configuration. They are immutable.
type Policies []*policy

type policy struct {
	config *configv1.Policy
	rules  []rule
}

type rule struct {
	config *configv1.PolicyRule
	deny   cel.Program
}

// Compile makes policies ready for use. The error names the one that is wrong.
func Compile(configs []*configv1.Policy) (Policies, error) {
	var all Policies
	for _, c := range configs {
		p := &policy{config: c}
		for _, r := range c.GetRules() {
			deny, err := r.Program()
			if err != nil {
				return nil, fmt.Errorf("Policy %s: rule %s: %w", c.GetName(), r.GetName(), err)
			}
			p.rules = append(p.rules, rule{r, deny})
		}
		all = append(all, p)
	}
	return all, nil
}

// Facts are what expressions can use.
type Facts struct {
	Key, KeyName, Organization, Project string
	User                                string
	Model                               string // by the client's name; empty for a Route
	Operation                           string
	Stream                              bool
	Tools                               []string
	Size                                int // of the body, in bytes
	Address                             string
	Now                                 time.Time
}

func (f *Facts) values() map[string]any {
	return map[string]any{
		"key":  map[string]string{"id": f.Key, "name": f.KeyName, "organization": f.Organization, "project": f.Project},
		"user": f.User, "model": f.Model, "operation": f.Operation, "stream": f.Stream, "tools": f.Tools, "size": f.Size,
		"address": f.Address, "now": f.Now,
	}
}

// A Decision is what rules say of a request.
type Decision struct {
	Denied   string   // the rule that refuses it, "<policy>/<rule>"; empty: none does
	Message  string   // for the client
	Observed []string // rules that would refuse it
}

// Decide evaluates the rules that are for a request, until one refuses it.
func (all Policies) Decide(f *Facts) (d Decision) {
	var values map[string]any
	for _, p := range all {
		if !p.config.IsOf(f.Key, f.Organization, f.Project) {
			continue
		}
		if values == nil {
			values = f.values()
		}
		for _, r := range p.rules {
			name := p.config.GetName() + "/" + r.config.GetName()
			out, _, err := r.deny.Eval(values)
			if err == nil && out.Value() != true {
				continue
			}
			if r.config.GetObserve() {
				d.Observed = append(d.Observed, name)
				continue
			}
			d.Denied, d.Message = name, r.config.GetMessage()
			switch {
			case err != nil:
				d.Message = "The policy '" + name + "' could not decide on this request, and so refuses it."
			case d.Message == "":
				d.Message = "The policy '" + name + "' does not allow this request."
			}
			return d
		}
	}
	return d
}
