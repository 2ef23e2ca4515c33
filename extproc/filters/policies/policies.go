// Package policies has policies refuse requests and choose their models. Policies decide first: guardrails, caches and
// limits depend on the chosen model.
package policies

import (
	"context"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/policy"
)

type filter struct{ account *account.Account }

// New returns the filter of a request; nil if there are no policies, or the job service asks for itself.
func New(a *account.Account) call.Filter {
	if len(a.Call.Config.Policies) == 0 || a.Call.Key == nil {
		return nil
	}
	return filter{a}
}

// Request implements call.Filter. It may choose the model of the request.
func (f filter) Request(ctx context.Context) *call.Reply {
	if e := decide(f.account.Call); e != nil {
		return f.account.RejectBody(ctx, e, "mg_guarded")
	}
	return nil
}

func decide(c *call.Call) *openai.Error {
	d := c.Config.Policies.Decide(c.Facts())
	for _, name := range d.Observed {
		c.Found(guard.Finding{Rule: "policy " + name, Mode: guard.ModeObserve, Side: guard.SideRequest}, 1)
	}
	switch {
	case d.Denied != "":
		return Deny(c, d.Denied, d.Message)
	case d.Chosen != "":
		return choose(c, &d)
	}
	return nil
}

// Deny returns the error of a request that a rule of a policy refuses.
func Deny(c *call.Call, rule, message string) *openai.Error {
	c.RefusedBy("policy "+rule, c.Request.Model)
	return openai.CodePolicyDenied.New("%s", message).Final()
}

// choose takes the model that a rule has chosen, or returns an error. The rule gives no rights: a model that the key
// may not use stays forbidden. A request for which it cannot be chosen does not pass as if there were no rule.
func choose(c *call.Call, d *policy.Decision) *openai.Error {
	asked := c.Request.Model
	rule := "The policy '" + d.Chosen + "' chooses the model"
	if asked == "" {
		return Deny(c, d.Chosen, rule+" of this request, and cannot do so for this path.")
	}
	model, err := c.Config.Resolve(c.Key, d.Model)
	switch {
	case err != nil && c.Config.Withholder(c.Key, d.Model) != "":
		return Deny(c, d.Chosen, rule+" '"+d.Model+"', which this key may not use.")
	case err != nil:
		return Deny(c, d.Chosen, rule+" '"+d.Model+"', which does not exist or is not unique.")
	case model != asked:
		c.Record.Policy = d.Chosen + " instead of " + asked
	}
	c.Request.Model = model
	return nil
}
