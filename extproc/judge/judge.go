// Package judge decides on requests as they go to vendors, after they were translated.
package judge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/reported"
)

// A Judge decides on what goes to vendors. What it decides for the first attempt is what retries are held to.
type Judge struct {
	c        *call.Call
	account  *account.Account
	guards   *guard.Set // nil: none applies
	set      *guard.Set // nil: no rule lists tools
	declared *offered.Cover
	known    *offered.Cover // by policies; nil: none has asked
	refers   bool           // the conversation may refer to what a vendor keeps
	planned  bool           // the first attempt is on its way
	fees     []offered.Fee  // of the first attempt
	tier     string         // likewise
}

// New returns what judges the attempts of a request under the guardrails that apply to it; nil if nothing has to.
func New(c *call.Call, a *account.Account, set *guard.Set) *Judge {
	l, limits := c.Offers(), set.LimitsTools()
	refers := mayRefer(c)
	if !limits && !c.HasFacts() && !l.HasMore() && !refers {
		return nil
	}
	j := &Judge{c: c, account: a, guards: set, refers: refers}
	if limits {
		j.set, j.declared = set, l.Cover(call.IsDeclared)
	}
	if c.HasFacts() {
		j.known = l.Cover(func(*offered.Tool) bool { return true })
	}
	return j
}

// mayRefer reports whether the conversation of a request may refer to what a provider keeps, and the key may not refer
// to that of all providers.
func mayRefer(c *call.Call) bool {
	return c.Key != nil && c.Request.Sent != nil && (c.Key.Organization != "" || len(c.Key.Models) > 0) &&
		offered.MayRefer(c.Request.Sent.Body)
}

// Planned notes that the first attempt is on its way.
func (j *Judge) Planned() {
	if j != nil {
		j.planned = true
	}
}

// Judge implements routing.Judge.
func (j *Judge) Judge(t routing.Target, body []byte) error {
	out := offered.Read(body)
	if j.c.Request.Sent == nil {
		out = j.c.Offers() // the form passes as it is
	}
	if e := j.rights(t, out); e != nil {
		return e
	}
	if e := j.kept(t, out, body); e != nil {
		return e
	}
	if e := j.tools(out); e != nil {
		return e
	}
	if j.planned {
		return j.prices(out)
	}
	j.c.Goes(out)
	if out != nil {
		j.fees, j.tier = out.Fees, out.Tier
	}
	return nil
}

// rights returns the error of a request that reaches a model beside its own that the key may not use.
func (j *Judge) rights(t routing.Target, out *offered.List) error {
	provider := t.Provider.Config.GetName()
	var models []offered.Model
	if out != nil {
		models = out.Models
	}
	if c := j.c.Offers(); c != nil && j.c.Operation.Path == "" { // the path has the model, and the body may too
		models = slices.Concat(models, c.Models)
	}
	for _, m := range models {
		if j.c.Config.MayReach(j.c.Key, provider, m.Name) {
			continue
		}
		return openai.CodeModelNotAllowed.On(m.Member, "'%s' can lead to other models than 'model', which this key may not use. Leave it out.",
			m.Member).Final()
	}
	return nil
}

// kept returns the error of a request that refers to what the provider keeps for all tenants.
func (j *Judge) kept(t routing.Target, out *offered.List, body []byte) error {
	if j.c.Key == nil || j.c.Config.MayRefer(j.c.Key, t.Provider.Config) {
		return nil
	}
	if !j.refers {
		body = nil
	}
	member := out.Reference(body)
	if member == "" {
		return nil
	}
	return call.ReferenceNotAllowed(member)
}

// tools has guardrails and policies judge the tools that go out, unless they judged them as the client's.
func (j *Judge) tools(out *offered.List) error {
	if out == nil || j.set == nil && j.known == nil {
		return nil
	}
	var found, unknown []offered.Tool
	for i := range out.Tools {
		t := &out.Tools[i]
		if isAnswer(t) {
			continue
		}
		if j.set != nil && !j.declared.Has(t) {
			found = append(found, *t)
		}
		if j.known != nil && !j.known.Has(t) {
			unknown = append(unknown, *t)
		}
	}
	if len(found) > 0 {
		if e := j.guard(found); e != nil {
			return e
		}
	}
	if len(unknown) > 0 {
		return j.decide(unknown)
	}
	return nil
}

// isAnswer reports whether a tool is the gateway's own, for structured output.
func isAnswer(t *offered.Tool) bool {
	return t.Kind == offered.Function && strings.TrimRight(t.Name, "_") == messages.AnswerTool
}

// guard has guardrails judge tools that go out.
func (j *Judge) guard(tools []offered.Tool) error {
	findings := guard.Findings{}
	blocked, err := j.set.Tools(context.Background(), guard.NewWork(), tools, findings) // a bounded one
	if u, ok := errors.AsType[*guard.Unjudged](err); ok {
		return u.Refusal()
	}
	if !j.planned {
		for of, n := range findings {
			j.c.Found(of, n)
		}
	}
	if blocked == "" {
		return nil
	}
	if !j.planned {
		j.c.Record.RefusedBy = "guardrail " + blocked
	}
	return call.ContentBlocked(blocked, "")
}

// decide has policies decide again, with tools that only show as the request goes out: the definitions of functions
// that the conversation has called, for example. A retry must have no other tools than the first attempt.
func (j *Judge) decide(tools []offered.Tool) error {
	if j.planned {
		return notJudged(tools[0].Name)
	}
	c, facts := j.c, *j.c.Facts()
	facts.Tools = append(slices.Clone(facts.Tools), (&offered.List{Tools: tools}).Names()...)
	d := c.Config.Policies.Decide(&facts)
	if d.Denied != "" {
		return policies.Deny(c, d.Denied, d.Message)
	}
	fits := func(when cel.Program) bool { return facts.Fits(when) }
	same := cmp.Or(d.Chosen, j.chosenBy()) == j.chosenBy()
	if !same || c.Config.Rails.For(&c.Record.Subject, facts.Model, fits).Chosen() != j.guards.Chosen() {
		return notJudged(tools[0].Name)
	}
	c.Facts().Tools = facts.Tools
	j.known = c.Offers().Cover(func(*offered.Tool) bool { return true }).With(tools)
	return nil
}

// chosenBy returns the rule that has chosen another model, or "".
func (j *Judge) chosenBy() string {
	rule, _, _ := strings.Cut(j.c.Record.Policy, " instead of ")
	return rule
}

// notJudged is the error of a request that offers a tool on which nobody has decided.
func notJudged(tool string) error {
	return openai.CodeNotGuarded.On("tools",
		"The provider of this model would get the tool '%s', on which the policies of this key have not decided.", tool)
}

// prices holds a retry to what the first attempt was charged for.
func (j *Judge) prices(out *offered.List) error {
	if rules := j.account.Rules; out == nil || rules == nil || !rules.Budget {
		return nil
	}
	for _, f := range out.Fees {
		if !slices.ContainsFunc(j.fees, func(of offered.Fee) bool { return of.Tool == f.Tool }) {
			return openai.CodeUnsupportedParameter.On(f.Member,
				"What '%s' has the provider do has no price for this model, and your key has a budget.", f.Member)
		}
	}
	if asked := j.c.Offers(); !reported.IsUsual(out.Tier) && out.Tier != j.tier &&
		(asked == nil || out.Tier != asked.Tier) {
		return account.UnpricedTier(out.TierMember)
	}
	return nil
}
