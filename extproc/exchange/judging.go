package exchange

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/turns"
)

// maxTurnWait bounds the time that a request or an answer waits for a turn with its guardrails, each time.
const maxTurnWait = 5 * time.Second

// shedTurns says that a request was refused because too many wait for their guardrails.
const shedTurns = "guardrails"

// guardInTurn has guardrails look at a request whose texts may take them long.
func (x *Exchange) guardInTurn(ctx context.Context) Reply {
	set := x.guarded.set
	x.guarded = guarded{}
	work := guard.NewWork()
	work.Pause(x.takeTurn)
	return x.guard(ctx, set, work)
}

// takeTurn waits for a turn, or gives the one that it has to others and waits for the next.
func (x *Exchange) takeTurn(ctx context.Context) error {
	waits, cancel := context.WithTimeout(ctx, maxTurnWait)
	defer cancel()
	owner := cmp.Or(x.c.Key.Organization, x.c.Key.Name)
	err := x.turn.Take(waits, x.c.Env.Turns, owner)
	if err == nil || ctx.Err() != nil {
		return err
	}
	x.c.Shed(shedTurns)
	x.c.GuardAway = x.c.Guard != nil
	if errors.Is(err, turns.ErrMany) {
		return openai.CodeRateLimitExceeded.New("Too many requests of %s wait for their guardrails. Please try again when some have ended.",
			owner).After(time.Second)
	}
	return call.OverCapacity("The guardrails of the gateway have more work than they can do at the moment. Please try again later.")
}

// MayJudge reports whether the next piece of the answer may have to wait for checkers, or for a turn with its
// guardrails.
func (x *Exchange) MayJudge(piece int) bool {
	return x.c.Guard != nil && (x.c.Guard.MayWait() || x.judgesMuch(piece))
}

// judgesMuch reports whether guardrails may take long for the next piece of the answer.
func (x *Exchange) judgesMuch(piece int) bool {
	return x.c.Guard.IsMuch(piece + len(x.duplex.body))
}

// beginJudging prepares the guardrails for a piece of the answer. They wait for a turn only if it is much: then it has
// a goroutine of its own.
func (x *Exchange) beginJudging(piece int) {
	if x.c.Guard == nil {
		return
	}
	if x.judgesMuch(piece) {
		x.c.Guard.Work.Pause(x.takeTurn)
	} else {
		x.c.Guard.Work.Pause(nil)
	}
}
