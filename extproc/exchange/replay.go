package exchange

import (
	"bytes"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
)

// tick is the shortest time between two pieces of a replay.
const tick = 20 * time.Millisecond

// A replay sends a kept stream piece by piece. Envoy streams an answer of the ext_proc service only in place of an
// upstream's, so the request takes a route on which Envoy answers with a byte, which the stream replaces.
type replay struct {
	set   Headers // of the answer
	rest  []byte
	many  int           // events in a piece
	every time.Duration // between pieces
}

// replay begins the answer with a kept stream, of which so many events are sent a second.
func (x *Exchange) replay(set Headers, stream []byte, pace int) Reply {
	r := &replay{set: x.c.AppendID(append(set, x.c.LimitHeaders...)), rest: stream, many: 1,
		every: time.Second / time.Duration(pace)}
	for r.every < tick {
		r.many, r.every = 2*r.many, 2*r.every
	}
	x.replaying, x.state = r, inReplay
	x.c.Active = &routing.Plan{ID: x.c.Record.ID, Kind: envoy.KindReplayed}
	return Reply{Plan: x.c.Active}
}

// replayHeaders replaces the headers of Envoy's answer.
func (x *Exchange) replayHeaders(h Headers, f Facts) Reply {
	if f.CodeDetails != envoy.CodeDetailsOwn {
		status, _ := strconv.Atoi(h.Get(":status"))
		return answer.Envoys(&x.c, &x.account, status, f.CodeDetails)
	}
	reply := x.answer.Headers(h)
	reply.Set, reply.Remove = x.replaying.set, append(reply.Remove, "content-length")
	return reply
}

// replayPiece sends the next piece of the kept stream. The last one ends the exchange.
func (x *Exchange) replayPiece() Reply {
	r := x.replaying
	n := 0
	for range r.many {
		end := bytes.Index(r.rest[n:], []byte("\n\n"))
		if end < 0 {
			n = len(r.rest)
			break
		}
		n += end + 2
	}
	if x.c.Record.FirstByte.IsZero() {
		x.c.Record.FirstByte = x.c.Env.Now()
	}
	reply := Reply{Piece: true, Body: r.rest[:n], End: n == len(r.rest), Patience: r.every}
	r.rest = r.rest[n:]
	x.c.Sent(reply.Body)
	if reply.End {
		reply.Patience, x.c.Record.Outcome = 0, metering.OutcomeFinished
		x.c.Finish()
		x.account.Note()
	}
	return reply
}
