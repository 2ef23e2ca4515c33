package exchange

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// check has checkers judge the texts of a request, all at once. The request goes on if no rule refuses it.
func (x *Exchange) check(ctx context.Context) Reply {
	texts := x.guarded.texts
	x.guarded.texts = nil
	j := x.judge(ctx, texts, x.c.Request.Model)
	if ctx.Err() != nil { // the client has left
		return Reply{Wait: true}
	}
	if rule := cmp.Or(j.blocked, j.away); rule != "" {
		x.c.RefusedBy("guardrail "+rule, x.c.Request.Model)
		e := call.ContentBlocked(rule, "")
		if j.blocked == "" {
			e = checkerAway(rule, "requests")
			e.RetryAfter = time.Second
		}
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	if err := x.maskFound(ctx, texts, j.found); err != nil && ctx.Err() != nil {
		return Reply{Wait: true}
	} else if err != nil {
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_guarded")
	}
	return x.afterGuards(ctx)
}

// maskFound masks what checkers have found in a request.
func (x *Exchange) maskFound(ctx context.Context, texts []string, found []guard.Match) error {
	if len(found) == 0 {
		return nil
	}
	work := guard.NewWork()
	work.Pause(x.takeTurn)
	defer x.turn.Release()
	masked, err := guard.Mask(ctx, work, x.c.Request.Body, x.guarded.masks, texts, found)
	if u, ok := errors.AsType[*guard.Unjudged](err); ok {
		return u.Refusal()
	}
	if err != nil {
		return err
	}
	for of, n := range masked.Findings {
		x.c.Found(of, n)
	}
	if masked.Blocked != "" {
		x.c.Record.RefusedBy = "guardrail " + masked.Blocked
		return call.ContentBlocked(masked.Blocked, masked.Unmaskable)
	}
	return x.remask(masked.Body)
}

// A judgement is what rules say of texts, by what their checkers have found.
type judgement struct {
	blocked string        // a rule that does not let them pass
	away    string        // a rule that does not let them pass without its checker
	found   []guard.Match // what rules mask
}

// judge has all checkers judge texts at once.
func (x *Exchange) judge(ctx context.Context, texts []string, model string) (j judgement) {
	checks := x.guarded.checks
	call := &contentcheck.Call{ID: x.c.Record.ID, Texts: texts, Subject: x.c.Record.Subject, Model: model}
	var names []string
	for i := range checks {
		if name := checks[i].Checker; !slices.Contains(names, name) {
			names = append(names, name)
		}
		call.Answer = checks[i].Side == guard.SideAnswer
	}
	verdicts := x.c.Config.Checkers.Judge(ctx, names, call)
	if ctx.Err() != nil {
		return j
	}
	for i := range checks {
		c := &checks[i]
		v := verdicts[c.Checker]
		found, ok := maskable(c, v, texts)
		switch {
		case !ok:
			x.c.Found(c.Failure(), 1)
			if !c.PassOnFailure {
				j.away = cmp.Or(j.away, c.Rule)
			}
		case c.Masks:
			j.found = append(j.found, found...)
		case v.Finds(c.Categories, c.Threshold):
			x.c.Found(c.Finding(), 1)
			if c.Blocks {
				j.blocked = cmp.Or(j.blocked, c.Rule)
			}
		}
	}
	x.guarded.checks = slices.DeleteFunc(checks, func(c guard.Check) bool { return verdicts[c.Checker] == nil })
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

// checkAnswer has checkers judge texts of the answer. A checker that is away is not asked again.
func (x *Exchange) checkAnswer(ctx context.Context, texts []string) (rule string, err error) {
	if len(x.guarded.checks) == 0 {
		return "", nil
	}
	j := x.judge(ctx, texts, x.c.Record.Model)
	switch {
	case ctx.Err() != nil:
		return "", call.ErrLeft
	case j.blocked == "" && j.away != "":
		x.c.GuardAway, x.c.Record.RefusedBy = true, "guardrail "+j.away
		return "", checkerAway(j.away, "answers")
	}
	return j.blocked, nil
}

// checkerAway is the error where no checker could judge something, although a rule requires it.
func checkerAway(rule, what string) *openai.Error {
	return openai.CodeCheckerUnavailable.New("The guardrail '%s' cannot judge the content of %s at the moment. Please retry.",
		rule, what)
}
