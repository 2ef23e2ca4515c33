// Package policy decides by the expressions of policies whether a request is refused, and which model it is for.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/request"
)

// Policies are the policies of a configuration. They are immutable.
type Policies []*policy

type policy struct {
	config *configv1.Policy
	rules  []rule
}

type rule struct {
	config *configv1.PolicyRule
	name   string      // "<policy>/<rule>"
	fits   cel.Program // true for the requests that the rule is about
}

// Next compiles policies. Those that have not changed are taken from all.
func (all Policies) Next(configs []*configv1.Policy) (Policies, error) {
	ready := make(map[string]*policy, len(all))
	for _, p := range all {
		ready[p.config.GetName()] = p
	}
	next := make(Policies, 0, len(configs))
	for _, c := range configs {
		if p := ready[c.GetName()]; p != nil && proto.Equal(p.config, c) {
			next = append(next, p)
			continue
		}
		made, err := compile([]*configv1.Policy{c})
		if err != nil {
			return nil, err
		}
		next = append(next, made...)
	}
	return next, nil
}

func compile(configs []*configv1.Policy, options ...cel.ProgramOption) (Policies, error) {
	var all Policies
	for _, c := range configs {
		p := &policy{config: c}
		for _, r := range c.GetRules() {
			fits, err := r.Program(options...)
			if err != nil {
				return nil, fmt.Errorf("Policy %s: rule %s: %w", c.GetName(), r.GetName(), err)
			}
			p.rules = append(p.rules, rule{r, c.GetName() + "/" + r.GetName(), fits})
		}
		all = append(all, p)
	}
	return all, nil
}

// Facts are what expressions can use.
type Facts struct {
	request.Subject
	Model     string // by the client's name; empty for a Route
	Operation string
	Stream    bool
	Tools     []string
	Size      int // of the body, in bytes
	Now       time.Time

	spent uint64 // of maxSpent
}

// maxSpent bounds the work of all expressions on one request, in CEL's units: some ten milliseconds. What is evaluated
// after it fails, and so refuses the request. An expression as people write them takes ten.
const maxSpent = 400_000

var errSpent = errors.New("the expressions take more work than a request may cause")

// evaluate evaluates an expression within the work of the request.
func (f *Facts) evaluate(expression cel.Program, values any) (ref.Val, error) {
	if f.spent > maxSpent {
		return types.NewErr("%w", errSpent), errSpent
	}
	out, details, err := expression.Eval(values)
	if cost := details.ActualCost(); cost != nil {
		f.spent += *cost
	}
	return out, err
}

// Read adds the facts in the request itself: its user, unless there is one, the names of the tools that the vendor
// runs, and the size of its body. A form has only the size.
func (f *Facts) Read(r *inbound.Request, size int, offers *offered.List) {
	f.Size = size
	if r.Sent == nil {
		return
	}
	f.User = cmp.Or(f.User, request.UserOf(r))
	f.Tools = append(f.Tools, offers.Names()...)
}

// Fits reports whether an expression is true for a request, or fails.
func (f *Facts) Fits(when cel.Program) bool {
	out, err := f.evaluate(when, f.values())
	return err != nil || out.Value() == true
}

func (f *Facts) values() map[string]any {
	return map[string]any{
		"key":  map[string]string{"id": f.Key, "name": f.KeyName, "organization": f.Organization, "project": f.Project},
		"user": f.User, "token": f.Token, "model": f.Model, "operation": f.Operation, "stream": f.Stream,
		"tools": f.Tools, "size": f.Size,
		"address": f.Address, "now": f.Now,
	}
}

// A Decision is what rules say of a request.
type Decision struct {
	Denied   string   // the rule that refuses it, "<policy>/<rule>"; empty: none does
	Message  string   // for the client
	Chosen   string   // the rule that chooses the model; empty: none does
	Model    string   // that it chooses
	Observed []string // rules that would refuse it, or choose its model
}

// Decide evaluates the rules that are for a request, until one refuses it. The first one that chooses a model does so.
func (all Policies) Decide(f *Facts) (d Decision) {
	var values map[string]any
	for _, p := range all {
		if !configv1.Covers(p.config, f.Client()) {
			continue
		}
		if values == nil {
			values = f.values()
		}
		for i := range p.rules {
			if d.apply(f, &p.rules[i], values); d.Denied != "" {
				return d
			}
		}
	}
	return d
}

// apply applies one rule.
func (d *Decision) apply(f *Facts, r *rule, values map[string]any) {
	chooses := r.config.GetUseModel() != ""
	if chooses && d.Chosen != "" {
		return
	}
	out, err := f.evaluate(r.fits, values)
	switch {
	case err == nil && out.Value() != true:
	case r.config.GetObserve():
		d.Observed = append(d.Observed, r.name)
	case err != nil:
		d.Denied, d.Message = r.name, "The policy '"+r.name+"' could not decide on this request, and so refuses it."
	case chooses:
		d.Chosen, d.Model = r.name, r.config.GetUseModel()
	default:
		d.Denied = r.name
		d.Message = cmp.Or(r.config.GetMessage(), "The policy '"+r.name+"' does not allow this request.")
	}
}
