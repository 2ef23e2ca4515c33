package exchange

import (
	"context"
	"errors"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// guarded is what guardrails have to do with an exchange. It is zero where none applies.
type guarded struct {
	set    *guard.Set
	masks  *guard.Masks
	checks []guard.Check // that checkers have to judge before the request is sent; later those of the answer
	texts  []string      // of the request, for them
}

// looksAtAnswer reports whether the answer must come as events, of which the client's own texts are restored.
func (g *guarded) looksAtAnswer() bool {
	return g.set != nil && (g.set.Answers() || !g.masks.IsEmpty())
}

// guardRequest has policies decide on a request and guardrails look at its texts, and goes on with it. What may take
// long waits for its turn.
func (x *Exchange) guardRequest(ctx context.Context) Reply {
	e := policies.Decide(&x.c)
	if e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	set := x.c.Config.Rails.For(&x.c.Record.Subject, x.c.Request.Model, x.c.Fits)
	switch {
	case set == nil:
		return x.afterGuards(ctx)
	case set.IsMuch(x.c.Request.Size, configv1.GuardSide_REQUESTS):
		x.guarded.set, x.state = set, awaitGuards
		return Reply{Queue: true}
	}
	return x.guard(ctx, set, guard.NewWork())
}

// guard has rules look at the texts of a request, and goes on with it.
func (x *Exchange) guard(ctx context.Context, set *guard.Set, work *guard.Work) Reply {
	err := x.lookAt(ctx, set, work)
	x.turn.Release()
	switch {
	case err != nil && ctx.Err() != nil: // the client has left
		return Reply{Wait: true}
	case err != nil:
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_guarded")
	case len(x.guarded.checks) > 0:
		x.state = awaitChecks
		return Reply{Queue: true}
	}
	return x.afterGuards(ctx)
}

// lookAt has rules look at the texts of a request, and masks some.
func (x *Exchange) lookAt(ctx context.Context, set *guard.Set, work *guard.Work) error {
	looked, err := set.Request(ctx, work, x.c.Request.Body)
	if err == nil && set.LimitsTools() && looked.Blocked == "" {
		looked.Blocked, err = x.guardTools(ctx, work, set, looked.Findings)
	}
	if u, ok := errors.AsType[*guard.Unjudged](err); ok {
		x.c.RefusedBy("guardrail "+u.Rule, x.c.Request.Model)
		return u.Refusal()
	}
	if err != nil {
		if set.Strict() || ctx.Err() != nil {
			return err
		}
		if !errors.Is(err, guard.ErrUnread) { // there is no turn
			set.Fail(x.c.Found)
		}
		return nil
	}
	for of, n := range looked.Findings {
		x.c.Found(of, n)
	}
	if looked.Blocked != "" {
		x.c.RefusedBy("guardrail "+looked.Blocked, x.c.Request.Model)
		return call.ContentBlocked(looked.Blocked, looked.Unmaskable)
	}
	x.guarded = guarded{set: set, masks: looked.Masks}
	if len(looked.Texts) > 0 {
		x.guarded.checks, x.guarded.texts = set.Checks(configv1.GuardSide_REQUESTS), looked.Texts
	}
	if looked.Masks.IsEmpty() {
		return nil
	}
	return x.remask(looked.Body)
}

// remask puts the body without what is masked in place of the request's.
func (x *Exchange) remask(body []byte) error {
	masked, err := x.c.Operation.Parse(x.c.Head, body)
	masked.Model = x.c.Request.Model // that a policy may have chosen
	x.c.Request.Request, x.c.Request.Body = masked, body
	return err
}

// unguarded is the error of a request whose content no guardrail can look at; nil where none has to.
func (x *Exchange) unguarded() *openai.Error {
	if len(x.c.Config.Rails) == 0 || !x.c.Config.Rails.Guards(&x.c.Record.Subject) {
		return nil
	}
	return openai.CodeNotGuarded.New("A guardrail applies to this key, and cannot look at requests to this path.").Final()
}

// guardAnswer makes the guard of the answer that is about to come, if rules have something to do with it.
func (x *Exchange) guardAnswer() {
	g := &x.guarded
	if g.set == nil {
		return
	}
	if x.c.Guard = guard.NewAnswer(g.set, g.masks, x.c.WantsStream, x.checkAnswer); x.c.Guard == nil {
		return
	}
	x.c.Guard.Carrier = x.c.Head.Carrier
	if x.c.Guard.MayWait() {
		g.checks = g.set.Checks(configv1.GuardSide_ANSWERS)
	}
}

// noteGuard adds what was found in the answer to the record.
func (x *Exchange) noteGuard() {
	if x.c.Guard == nil {
		return
	}
	for of, n := range x.c.Guard.Findings {
		x.c.Found(of, n)
	}
}

// guardTools has the rules that list tools look at those that a client offers, and returns the rule that refuses them.
// What is a switch, or unknown, is judged as it goes out.
func (x *Exchange) guardTools(ctx context.Context, work *guard.Work, set *guard.Set,
	findings guard.Findings) (blocked string, err error) {
	l := x.c.Offers()
	if l == nil {
		return "", nil
	}
	declared := slices.DeleteFunc(slices.Clone(l.Tools), func(t offered.Tool) bool { return !call.IsDeclared(&t) })
	return set.Tools(ctx, work, declared, findings)
}
