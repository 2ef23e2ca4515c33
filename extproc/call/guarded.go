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

// Guarded is what guardrails have to do with a call. Nil has nothing to do with it.
type Guarded struct {
	Set   *guard.Set   // nil: none could look at the request, and none has to
	Masks *guard.Masks // nil: none has looked yet
	// Checks are what checkers have to judge before the request is sent; later what they have to judge of the answer.
	Checks []guard.Check
	Texts  []string // of the request, for checkers
	// Judge has checkers judge texts of the answer. It returns the rule that refuses them.
	Judge guard.Judge
	// Unjudged means that the answer ends because its checker does not answer.
	Unjudged bool

	call   *Call
	answer *guard.Answer // judges the answer; nil: nothing does
	turn   turns.Turn    // of what takes long
}

// Guard has guardrails look at the call.
func (c *Call) Guard(set *guard.Set) { c.Guarded = &Guarded{Set: set, call: c} }

// Answer returns what judges the answer, or nil.
func (g *Guarded) Answer() *guard.Answer {
	if g == nil {
		return nil
	}
	return g.answer
}

// HasBlocked reports whether a rule has ended the answer.
func (g *Guarded) HasBlocked() bool { return g.Answer() != nil && g.answer.Blocked != "" }

// HasEnded reports whether a rule has ended the answer, or its checker does not answer.
func (g *Guarded) HasEnded() bool { return g.IsUnjudged() || g.HasBlocked() }

// IsUnjudged reports whether the answer ends because its checker does not answer.
func (g *Guarded) IsUnjudged() bool { return g != nil && g.Unjudged }

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
func (g *Guarded) TakeTurn(ctx context.Context) error {
	waits, cancel := context.WithTimeout(ctx, maxTurnWait)
	defer cancel()
	owner := cmp.Or(g.call.Key.Organization, g.call.Key.Name)
	err := g.turn.Take(waits, g.call.Env.Turns, owner)
	if err == nil || ctx.Err() != nil {
		return err
	}
	g.call.Shed(shedTurns)
	g.Unjudged = g.answer != nil
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
func (g *Guarded) Remask(body []byte) error {
	c := g.call
	masked, err := c.Operation.Parse(c.Head, body)
	masked.Model = c.Request.Model // that a policy may have chosen
	c.Request.Request, c.Request.Body = masked, body
	return err
}

// Expect makes the guard of the answer that is about to come, if rules have something to do with it.
func (g *Guarded) Expect() {
	if g.Rules() == nil {
		return
	}
	if g.answer = guard.NewAnswer(g.Set, g.Masks, g.call.WantsStream, g.Judge); g.answer == nil {
		return
	}
	g.answer.Carrier = g.call.Head.Carrier
	if g.answer.MayWait() {
		g.Checks = g.Set.Checks(configv1.GuardSide_ANSWERS)
	}
}

// Note adds what was found in the answer to the record.
func (g *Guarded) Note() {
	if g.Answer() == nil {
		return
	}
	for of, n := range g.answer.Findings {
		g.call.Found(of, n)
	}
}

// MayJudge reports whether a piece of the answer may have to wait for checkers, or for a turn with its guardrails.
func (g *Guarded) MayJudge(piece int) bool {
	return g.Answer() != nil && (g.answer.MayWait() || g.answer.IsMuch(piece))
}

// BeginJudging prepares the guardrails for a piece of the answer. They wait for a turn only if it is much: then it has
// a goroutine of its own.
func (g *Guarded) BeginJudging(piece int) {
	switch {
	case g.Answer() == nil:
	case g.answer.IsMuch(piece):
		g.answer.Work.Pause(g.TakeTurn)
	default:
		g.answer.Work.Pause(nil)
	}
}
