package exchange

import (
	"cel.dev/cel-go/cel"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/policy"
)

// decide returns the model of a request, which a policy may have chosen, or the error of a request that a policy
// refuses. Its body may be nil: that of a Route or a session is not seen.
func (x *Exchange) decide(r inbound.Request, body []byte) (model string, e *openai.Error) {
	if len(x.config.Policies) == 0 {
		return r.Model, nil
	}
	d := x.config.Policies.Decide(x.factsOf(r, body))
	for _, name := range d.Observed {
		x.found(guard.Finding{Rule: "policy " + name, Mode: guard.ModeObserve, Side: guard.SideRequest}, 1)
	}
	switch {
	case d.Denied != "":
		return "", x.deny(r.Model, d.Denied, d.Message)
	case d.Chosen != "":
		return x.choose(r.Model, &d)
	}
	return r.Model, nil
}

// factsOf returns what expressions can use. The body is read once for all of them. The model is that of r, because a
// policy may have chosen one.
func (x *Exchange) factsOf(r inbound.Request, body []byte) *policy.Facts {
	if x.facts != nil {
		x.facts.Model = r.Model
		return x.facts
	}
	x.facts = &policy.Facts{Subject: x.record.Subject, Model: r.Model, Operation: x.record.Operation, Stream: r.Stream,
		Tools: []string{}, Now: x.record.Start}
	if body != nil {
		x.facts.Read(body, x.offersOf(r, body))
	}
	return x.facts
}

// rulesFor returns those of rules that are for the request. Its body may be nil, as for decide.
func (x *Exchange) rulesFor(set *access.Rules, r inbound.Request, body []byte) *access.Rules {
	return set.For(func(when cel.Program) bool { return x.factsOf(r, body).Fits(when) })
}

// deny returns the error of a request that a rule of a policy refuses.
func (x *Exchange) deny(model, rule, message string) *openai.Error {
	x.record.Model, x.record.Label = model, x.config.Label(model)
	x.record.RefusedBy = "policy " + rule
	return openai.CodePolicyDenied.New("%s", message).Final()
}

// choose returns the model that a rule has chosen, or an error. The rule gives no rights: a model that the key may not
// use stays forbidden. A request for which it cannot be chosen does not pass as if there were no rule.
func (x *Exchange) choose(asked string, d *policy.Decision) (model string, e *openai.Error) {
	rule := "The policy '" + d.Chosen + "' chooses the model"
	if asked == "" {
		return "", x.deny(asked, d.Chosen, rule+" of this request, and cannot do so for this path.")
	}
	model, err := x.config.Resolve(x.key, d.Model)
	switch {
	case err != nil && x.config.Withholder(x.key, d.Model) != "":
		return "", x.deny(asked, d.Chosen, rule+" '"+d.Model+"', which this key may not use.")
	case err != nil:
		return "", x.deny(asked, d.Chosen, rule+" '"+d.Model+"', which does not exist or is not unique.")
	case model != asked:
		x.record.Policy = d.Chosen + " instead of " + asked
	}
	return model, nil
}

// Chosen returns which rule of a policy has chosen the model, instead of which one, and the model. Both are empty if
// none has.
func (x *Exchange) Chosen() (policy, model string) {
	if x.record.Policy == "" {
		return "", ""
	}
	return x.record.Policy, x.record.Model
}

// found notes findings in the record.
func (x *Exchange) found(f guard.Finding, n int) {
	if x.record.Guards == nil {
		x.record.Guards = guard.Findings{}
	}
	x.record.Guards[f] += n
}
