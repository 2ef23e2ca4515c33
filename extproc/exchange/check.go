package exchange

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/inbound"
)

// waiting is a request that waits before it is planned.
type waiting struct {
	given, body []byte // as the client sent it, and behind guardrails
	request     inbound.Request
}

// check has checkers judge the texts of a request, all at once. The request goes on if no rule refuses it.
func (x *Exchange) check(ctx context.Context) Reply {
	w := x.waiting
	x.waiting = nil
	blocked, away := x.judge(ctx, x.guarded.texts, w.request.Model)
	x.guarded.texts = nil
	if ctx.Err() != nil { // the client has left
		return Reply{Wait: true}
	}
	if rule := cmp.Or(blocked, away); rule != "" {
		x.record.Model, x.record.Label = w.request.Model, x.config.Label(w.request.Model)
		x.record.RefusedBy = "guardrail " + rule
		e := contentBlocked(rule)
		if blocked == "" {
			e = checkerAway(rule, "requests")
			e.RetryAfter = time.Second
		}
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	return x.afterGuards(ctx, w.given, w.body, w.request)
}

// judge has all checkers judge texts at once. It returns a rule that blocks them, and one whose checker is away and
// that does not let them pass then.
func (x *Exchange) judge(ctx context.Context, texts []string, model string) (blocked, away string) {
	checks := x.guarded.checks
	call := &contentcheck.Call{ID: x.record.ID, Texts: texts, Key: x.key.Name, Organization: x.key.Organization,
		Project: x.key.Project, Model: model}
	var names []string
	for i := range checks {
		if name := checks[i].Checker; !slices.Contains(names, name) {
			names = append(names, name)
		}
		call.Answer = checks[i].Side == guard.SideAnswer
	}
	verdicts := x.config.Checkers.Judge(ctx, names, call)
	if ctx.Err() != nil {
		return "", ""
	}
	for i := range checks {
		c := &checks[i]
		v := verdicts[c.Checker]
		switch {
		case v == nil:
			x.found(c.Failure(), 1)
			if !c.PassOnFailure && away == "" {
				away = c.Rule
			}
		case v.Finds(c.Categories, c.Threshold):
			x.found(c.Finding(), 1)
			if c.Blocks && blocked == "" {
				blocked = c.Rule
			}
		}
	}
	x.guarded.checks = slices.DeleteFunc(checks, func(c guard.Check) bool { return verdicts[c.Checker] == nil })
	return blocked, away
}

// checkAnswer has checkers judge texts of the answer. A checker that is away is not asked again.
func (x *Exchange) checkAnswer(ctx context.Context, texts []string) (rule string, err error) {
	if len(x.guarded.checks) == 0 {
		return "", nil
	}
	blocked, away := x.judge(ctx, texts, x.record.Model)
	switch {
	case ctx.Err() != nil:
		return "", errLeft
	case blocked == "" && away != "":
		x.guarded.away, x.record.RefusedBy = true, "guardrail "+away
		return "", checkerAway(away, "answers")
	}
	return blocked, nil
}

// MayJudge reports whether the next piece of the answer may have to wait for checkers.
func (x *Exchange) MayJudge() bool { return x.guarded.answer != nil && x.guarded.answer.MayWait() }

// errLeft ends the wait for checkers of an answer whose client has left.
var errLeft = errors.New("the client has left")

// checkerAway is the error where no checker could judge something, although a rule requires it.
func checkerAway(rule, what string) *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer,
		Code:    openai.CodeCheckerUnavailable,
		Message: "The guardrail '" + rule + "' cannot judge the content of " + what + " at the moment. Please retry."}
}
