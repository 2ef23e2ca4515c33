package exchange

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/inbound"
)

// waiting is a request that waits before it is planned.
type waiting struct {
	given, body []byte // as the client sent it, and behind guardrails
	request     inbound.Request
}

// check has checkers judge the texts of a request, all at once. The request goes on if no rule refuses it.
func (x *Exchange) check(ctx context.Context) Reply {
	w, g := x.waiting, &x.guarded
	x.waiting = nil
	call := &contentcheck.Call{ID: x.record.ID, Texts: g.texts, Key: x.key.Name, Organization: x.key.Organization,
		Project: x.key.Project, Model: w.request.Model}
	var names []string
	for i := range g.checks {
		if name := g.checks[i].Checker; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	verdicts := x.config.Checkers.Judge(ctx, names, call)
	g.texts = nil
	if ctx.Err() != nil { // the client has left
		return Reply{Wait: true}
	}
	var refused *openai.Error
	for i := range g.checks {
		c := &g.checks[i]
		v := verdicts[c.Checker]
		switch {
		case v == nil:
			x.found(c.Failure(), 1)
			if !c.PassOnFailure && refused == nil {
				refused = checkerAway(c.Rule)
				x.record.RefusedBy = "guardrail " + c.Rule
			}
		case v.Finds(c.Categories, c.Threshold):
			x.found(c.Finding(), 1)
			if c.Blocks { // it goes before what failed
				refused = contentBlocked(c.Rule)
				x.record.RefusedBy = "guardrail " + c.Rule
			}
		}
	}
	if refused != nil {
		x.record.Model, x.record.Label = w.request.Model, x.config.Label(w.request.Model)
		return x.rejectBody(ctx, refused, "mg_guarded")
	}
	return x.afterGuards(ctx, w.given, w.body, w.request)
}

// checkerAway is the error of a request that no checker could judge, although a rule requires it.
func checkerAway(rule string) *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer,
		Code: openai.CodeCheckerUnavailable, RetryAfter: time.Second,
		Message: "The guardrail '" + rule + "' cannot judge the content of requests at the moment. Please retry."}
}
