package exchange

import (
	"context"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/room"
)

// heavy is the size in bytes from which a body is parsed in a goroutine of its own, so that other exchanges do not
// wait.
const heavy = 64 << 10

// IsHeavy reports whether the body can be heavy with the next piece of so many bytes.
func (x *Exchange) IsHeavy(piece int) bool {
	return piece+len(x.c.Held) > heavy || x.chain.IsPacked()
}

// MayJudge reports whether the next piece of the answer may have to wait for checkers, or for a turn with its
// guardrails.
func (x *Exchange) MayJudge(piece int) bool { return x.c.Guarded.MayJudge(piece + len(x.c.Held)) }

// InSession reports whether pieces of the answer belong to a session, and may reserve usage.
func (x *Exchange) InSession() bool { return x.c.Active != nil && x.c.Active.Kind == envoy.KindSession }

// Room takes room for a piece of the answer's body, if the whole body is needed. It is called before ResponseBody,
// which fails without room. It returns the number of bytes that AwaitRoom must wait for, or 0.
func (x *Exchange) Room(piece int) (wanting int64) {
	d := &x.duplex
	need := int64(piece)
	switch {
	case d.over, !x.c.Whole, x.c.Ended:
		return 0
	case d.whole:
		need = min(max(need+int64(len(x.c.Held)), d.size), maxAnswer)
	}
	return room.Answer(&x.c, need, d.size)
}

// AwaitRoom waits until there is room for so many bytes.
func (x *Exchange) AwaitRoom(ctx context.Context, need int64) { room.Await(ctx, &x.c, need) }

// announcedAnswer returns the announced length of an answer, or 0 if it is unknown or too large to hold.
func announcedAnswer(h Headers) int64 {
	if n, ok := call.LengthOf(h); ok && n > 0 && n <= maxAnswer {
		return n
	}
	return 0
}
