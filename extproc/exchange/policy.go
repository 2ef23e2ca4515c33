package exchange

import (
	"cel.dev/cel-go/cel"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/policy"
)

// decide has policies decide on a request, and choose its model. It returns the error of a request that a policy
// refuses.
func (x *Exchange) decide() *openai.Error {
	if len(x.c.Config.Policies) == 0 {
		return nil
	}
	d := x.c.Config.Policies.Decide(x.factsOf())
	for _, name := range d.Observed {
		x.c.Found(guard.Finding{Rule: "policy " + name, Mode: guard.ModeObserve, Side: guard.SideRequest}, 1)
	}
	switch {
	case d.Denied != "":
		return x.deny(x.c.Request.Model, d.Denied, d.Message)
	case d.Chosen != "":
		return x.choose(&d)
	}
	return nil
}

// factsOf returns what expressions can use. The request is read once for all of them, but for the model, because a
// policy may choose one.
func (x *Exchange) factsOf() *policy.Facts {
	r := &x.c.Request
	if x.facts != nil {
		x.facts.Model = r.Model
		return x.facts
	}
	x.facts = &policy.Facts{Subject: x.c.Record.Subject, Model: r.Model, Operation: x.c.Record.Operation,
		Stream: r.Stream, Tools: []string{}, Now: x.c.Record.Start}
	if r.Body != nil {
		x.facts.Read(&r.Request, r.Size, x.offersOf())
	}
	return x.facts
}

// fits reports whether an expression is true for the request, or fails.
func (x *Exchange) fits(when cel.Program) bool { return x.factsOf().Fits(when) }

// rulesFor returns those of rules that are for the request.
func (x *Exchange) rulesFor(set *access.Rules) *access.Rules { return set.For(x.fits) }

// refuses notes the rule that refuses a request to a model.
func (x *Exchange) refuses(by, model string) {
	x.c.Record.Model, x.c.Record.Label, x.c.Record.RefusedBy = model, x.c.Config.Label(model), by
}

// deny returns the error of a request that a rule of a policy refuses.
func (x *Exchange) deny(model, rule, message string) *openai.Error {
	x.refuses("policy "+rule, model)
	return openai.CodePolicyDenied.New("%s", message).Final()
}

// choose takes the model that a rule has chosen, or returns an error. The rule gives no rights: a model that the key
// may not use stays forbidden. A request for which it cannot be chosen does not pass as if there were no rule.
func (x *Exchange) choose(d *policy.Decision) *openai.Error {
	asked := x.c.Request.Model
	rule := "The policy '" + d.Chosen + "' chooses the model"
	if asked == "" {
		return x.deny(asked, d.Chosen, rule+" of this request, and cannot do so for this path.")
	}
	model, err := x.c.Config.Resolve(x.c.Key, d.Model)
	switch {
	case err != nil && x.c.Config.Withholder(x.c.Key, d.Model) != "":
		return x.deny(asked, d.Chosen, rule+" '"+d.Model+"', which this key may not use.")
	case err != nil:
		return x.deny(asked, d.Chosen, rule+" '"+d.Model+"', which does not exist or is not unique.")
	case model != asked:
		x.c.Record.Policy = d.Chosen + " instead of " + asked
	}
	x.c.Request.Model = model
	return nil
}

// Chosen returns which rule of a policy has chosen the model, instead of which one, and the model. Both are empty if
// none has.
func (x *Exchange) Chosen() (policy, model string) {
	if x.c.Record.Policy == "" {
		return "", ""
	}
	return x.c.Record.Policy, x.c.Record.Model
}
