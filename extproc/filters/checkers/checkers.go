// Package checkers has checkers, which are services, judge the texts of requests and answers for rules of guardrails.
package checkers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/pipeline"
)

type filter struct{ account *account.Account }

// New returns the filter of a request on which guardrails have decided; nil if none has to do with it.
func New(a *account.Account) call.Filter {
	if a.Call.Guarded.Rules() == nil || len(a.Call.Config.Checkers) == 0 {
		return nil
	}
	return filter{a}
}

// Request implements call.Filter. All checkers judge at once. The request goes on if no rule refuses it.
func (f filter) Request(ctx context.Context) *call.Reply {
	c := f.account.Call
	g := c.Guarded
	if g.Judge = f.answer; len(g.Checks) == 0 {
		return nil
	}
	if wait := c.Queue(); wait != nil {
		return wait
	}
	texts := g.Texts
	g.Texts = nil
	j := judge(ctx, c, texts, c.Request.Model)
	if ctx.Err() != nil {
		return call.Left()
	}
	if rule := cmp.Or(j.blocked, j.missing); rule != "" {
		c.RefusedBy("guardrail "+rule, c.Request.Model)
		e := call.ContentBlocked(rule, "")
		if j.blocked == "" {
			e = unavailable(rule, "requests")
			e.RetryAfter = time.Second
		}
		return f.account.RejectBody(ctx, e, "mg_guarded")
	}
	err := mask(ctx, c, texts, j.found)
	switch {
	case err != nil && ctx.Err() != nil:
		return call.Left()
	case err != nil:
		return f.account.RejectBody(ctx, pipeline.ClientError(err), "mg_guarded")
	}
	return nil
}

// mask masks what checkers have found in a request.
func mask(ctx context.Context, c *call.Call, texts []string, found []guard.Match) error {
	if len(found) == 0 {
		return nil
	}
	work := guard.NewWork()
	work.Pause(c.Guarded.TakeTurn)
	defer c.Guarded.ReleaseTurn()
	masked, err := guard.Mask(ctx, work, c.Request.Body, c.Guarded.Masks, texts, found)
	if u, ok := errors.AsType[*guard.Unjudged](err); ok {
		return u.Refusal()
	}
	if err != nil {
		return err
	}
	for of, n := range masked.Findings {
		c.Found(of, n)
	}
	if masked.Blocked != "" {
		c.Record.RefusedBy = "guardrail " + masked.Blocked
		return call.ContentBlocked(masked.Blocked, masked.Unmaskable)
	}
	return c.Guarded.Remask(masked.Body)
}

// A judgement is what rules say of texts, by what their checkers have found.
type judgement struct {
	blocked string        // a rule that does not let them pass
	missing string        // a rule that does not let them pass without its checker
	found   []guard.Match // what rules mask
}

// judge has all checkers judge texts at once.
func judge(ctx context.Context, c *call.Call, texts []string, model string) (j judgement) {
	checks := c.Guarded.Checks
	asked := &contentcheck.Call{ID: c.Record.ID, Texts: texts, Subject: c.Record.Subject, Model: model}
	var names []string
	for i := range checks {
		if name := checks[i].Checker; !slices.Contains(names, name) {
			names = append(names, name)
		}
		asked.Answer = checks[i].Side == guard.SideAnswer
	}
	verdicts := c.Config.Checkers.Judge(ctx, names, asked)
	if ctx.Err() != nil {
		return j
	}
	for i := range checks {
		of := &checks[i]
		v := verdicts[of.Checker]
		found, ok := maskable(of, v, texts)
		switch {
		case !ok:
			c.Found(of.Failure(), 1)
			if !of.PassOnFailure {
				j.missing = cmp.Or(j.missing, of.Rule)
			}
		case of.Masks:
			j.found = append(j.found, found...)
		case v.Finds(of.Categories, of.Threshold):
			c.Found(of.Finding(), 1)
			if of.Blocks {
				j.blocked = cmp.Or(j.blocked, of.Rule)
			}
		}
	}
	c.Guarded.Checks = slices.DeleteFunc(checks, func(of guard.Check) bool { return verdicts[of.Checker] == nil })
	return j
}

// maskable returns what a rule masks of what its checker has found. It is false if there is no verdict, or if
// something is found and cannot be masked.
func maskable(c *guard.Check, v *contentcheck.Verdict, texts []string) ([]guard.Match, bool) {
	if v == nil || !c.Masks {
		return nil, v != nil
	}
	var all []guard.Match
	for _, m := range v.Found(c.Categories, c.Threshold) {
		all = append(all, guard.Match{Rule: c.Rule, Category: m.Category, Text: m.Text})
	}
	if len(all) == 0 {
		return nil, !v.Finds(c.Categories, c.Threshold)
	}
	return all, guard.CanMask(texts, all)
}

// answer has checkers judge texts of the answer. A checker that does not answer is not asked again.
func (f filter) answer(ctx context.Context, texts []string) (rule string, err error) {
	c := f.account.Call
	if len(c.Guarded.Checks) == 0 {
		return "", nil
	}
	j := judge(ctx, c, texts, c.Record.Model)
	switch {
	case ctx.Err() != nil:
		return "", call.ErrLeft
	case j.blocked == "" && j.missing != "":
		c.Guarded.Unjudged, c.Record.RefusedBy = true, "guardrail "+j.missing
		return "", unavailable(j.missing, "answers")
	}
	return j.blocked, nil
}

// unavailable is the error if no checker could judge something, although a rule requires it.
func unavailable(rule, what string) *openai.Error {
	return openai.CodeCheckerUnavailable.New("The guardrail '%s' cannot judge the content of %s at the moment. Please retry.",
		rule, what)
}
