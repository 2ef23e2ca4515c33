package call

import (
	"cmp"
	"context"
	"errors"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/turns"
)

// Guarded is what guardrails have to do with a call.
type Guarded struct {
	Set   *guard.Set   // nil: none could look at the request, and none has to
	Masks *guard.Masks // nil: none has looked yet
	// Checks are what checkers have to judge before the request is sent; later what they have to judge of the answer.
	Checks []guard.Check
	Texts  []string // of the request, for checkers
	// Judge has checkers judge texts of the answer. It returns the rule that refuses them.
	Judge guard.Judge
	turn  turns.Turn // of what takes long
}

// Rules returns the rules that apply, or nil.
func (g *Guarded) Rules() *guard.Set {
	if g == nil {
		return nil
	}
	return g.Set
}

// LooksAtAnswer reports whether the answer must come as events, in which the client's own texts are restored.
func (g *Guarded) LooksAtAnswer() bool {
	return g.Rules() != nil && (g.Set.Answers() || !g.Masks.IsEmpty())
}

// Masked reports whether guardrails have masked some of the request.
func (g *Guarded) Masked() bool { return g.Rules() != nil && !g.Masks.IsEmpty() }

// maxTurnWait bounds the time that a request or an answer waits for a turn with its guardrails, each time.
const maxTurnWait = 5 * time.Second

// shedTurns says that a request was refused because too many wait for their guardrails.
const shedTurns = "guardrails"

// TakeTurn waits for a turn with guardrails, or gives the one that the call has to others and waits for the next.
func (c *Call) TakeTurn(ctx context.Context) error {
	waits, cancel := context.WithTimeout(ctx, maxTurnWait)
	defer cancel()
	owner := cmp.Or(c.Key.Organization, c.Key.Name)
	err := c.Guarded.turn.Take(waits, c.Env.Turns, owner)
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.Shed(shedTurns)
	c.GuardAway = c.Guard != nil
	if errors.Is(err, turns.ErrMany) {
		return openai.CodeRateLimitExceeded.New("Too many requests of %s wait for their guardrails. Please try again when some have ended.",
			owner).After(time.Second)
	}
	return OverCapacity("The guardrails of the gateway have more work than they can do at the moment. Please try again later.")
}

// ReleaseTurn gives the turn with guardrails to others.
func (g *Guarded) ReleaseTurn() {
	if g != nil {
		g.turn.Release()
	}
}

// Remask puts the body without what is masked in place of the request's.
func (c *Call) Remask(body []byte) error {
	masked, err := c.Operation.Parse(c.Head, body)
	masked.Model = c.Request.Model // that a policy may have chosen
	c.Request.Request, c.Request.Body = masked, body
	return err
}

// GuardAnswer makes the guard of the answer that is about to come, if rules have something to do with it.
func (c *Call) GuardAnswer() {
	g := c.Guarded
	if g.Rules() == nil {
		return
	}
	if c.Guard = guard.NewAnswer(g.Set, g.Masks, c.WantsStream, g.Judge); c.Guard == nil {
		return
	}
	c.Guard.Carrier = c.Head.Carrier
	if c.Guard.MayWait() {
		g.Checks = g.Set.Checks(configv1.GuardSide_ANSWERS)
	}
}

// NoteGuard adds what was found in the answer to the record.
func (c *Call) NoteGuard() {
	if c.Guard == nil {
		return
	}
	for of, n := range c.Guard.Findings {
		c.Found(of, n)
	}
}

// MayJudge reports whether a piece of the answer may have to wait for checkers, or for a turn with its guardrails.
func (c *Call) MayJudge(piece int) bool {
	return c.Guard != nil && (c.Guard.MayWait() || c.Guard.IsMuch(piece))
}

// BeginJudging prepares the guardrails for a piece of the answer. They wait for a turn only if it is much: then it has
// a goroutine of its own.
func (c *Call) BeginJudging(piece int) {
	switch {
	case c.Guard == nil:
	case c.Guard.IsMuch(piece):
		c.Guard.Work.Pause(c.TakeTurn)
	default:
		c.Guard.Work.Pause(nil)
	}
}
