// Package guardrails has the rules of guardrails look at the texts and tools of requests: they refuse some, and mask
// some of others. What is long waits for its turn.
package guardrails

import (
	"context"
	"errors"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/pipeline"
)

type filter struct{ account *account.Account }

// New returns the filter of a request; nil if there are no guardrails, or the job service asks for itself.
func New(a *account.Account) call.Filter {
	if len(a.Call.Config.Rails) == 0 || a.Call.Key == nil {
		return nil
	}
	return filter{a}
}

// Request implements call.Filter.
func (f filter) Request(ctx context.Context) *call.Reply {
	c := f.account.Call
	if c.Request.Body == nil {
		return f.unread(ctx)
	}
	if c.Guarded == nil { // it has not waited
		set := c.Config.Rails.For(&c.Record.Subject, c.Request.Model, c.Fits)
		if set == nil {
			return nil
		}
		c.Guard(set)
	}
	set := c.Guarded.Set
	work := guard.NewWork()
	if set.IsMuch(c.Request.Size, configv1.GuardSide_REQUESTS) {
		if wait := c.Queue(); wait != nil {
			return wait
		}
		work.Pause(c.Guarded.TakeTurn)
	}
	c.Guarded.Set = nil
	err := look(ctx, c, set, work)
	c.Guarded.ReleaseTurn()
	switch {
	case err != nil && ctx.Err() != nil:
		return call.Left()
	case err != nil:
		return f.account.RejectBody(ctx, pipeline.ClientError(err), "mg_guarded")
	}
	return nil
}

// unread refuses a request whose content nobody reads, if a guardrail has to look at it.
func (f filter) unread(ctx context.Context) *call.Reply {
	c := f.account.Call
	if !c.Config.Rails.Guards(&c.Record.Subject) {
		return nil
	}
	e := openai.CodeNotGuarded.New("A guardrail applies to this key, and cannot look at requests to this path.").Final()
	return f.account.RejectBody(ctx, e, "mg_guarded")
}

// look has rules look at the texts of a request, and masks some.
func look(ctx context.Context, c *call.Call, set *guard.Set, work *guard.Work) error {
	looked, err := set.Request(ctx, work, c.Request.Body)
	if err == nil && set.LimitsTools() && looked.Blocked == "" {
		looked.Blocked, err = lookAtTools(ctx, c, work, set, looked.Findings)
	}
	if u, ok := errors.AsType[*guard.Unjudged](err); ok {
		c.RefusedBy("guardrail "+u.Rule, c.Request.Model)
		return u.Refusal()
	}
	if err != nil {
		if set.Strict() || ctx.Err() != nil {
			return err
		}
		if !errors.Is(err, guard.ErrUnread) { // there is no turn
			set.Fail(c.Found)
		}
		return nil
	}
	for of, n := range looked.Findings {
		c.Found(of, n)
	}
	if looked.Blocked != "" {
		c.RefusedBy("guardrail "+looked.Blocked, c.Request.Model)
		return call.ContentBlocked(looked.Blocked, looked.Unmaskable)
	}
	g := c.Guarded
	if g.Set, g.Masks = set, looked.Masks; len(looked.Texts) > 0 {
		g.Checks, g.Texts = set.Checks(configv1.GuardSide_REQUESTS), looked.Texts
	}
	if looked.Masks.IsEmpty() {
		return nil
	}
	return g.Remask(looked.Body)
}

// lookAtTools has the rules that list tools look at the client's, and returns the rule that refuses them.
// What is a switch, or unknown, is judged as it goes out.
func lookAtTools(ctx context.Context, c *call.Call, work *guard.Work, set *guard.Set,
	findings guard.Findings) (blocked string, err error) {
	l := c.Offers()
	if l == nil {
		return "", nil
	}
	declared := slices.DeleteFunc(slices.Clone(l.Tools), func(t offered.Tool) bool { return !call.IsDeclared(&t) })
	return set.Tools(ctx, work, declared, findings)
}
