package exchange

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/passages/realtime"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

const contentTypeForm = "multipart/form-data"

// ResponseHeaders handles the headers of an answer. The answer is a provider's, or Envoy's own if it reached no
// provider.
func (x *Exchange) ResponseHeaders(h Headers, f Facts, end bool) Reply {
	var reply Reply
	switch {
	case x.state == inReplay:
		reply = x.replayHeaders(h, f)
	case x.further != nil && x.further.first != nil:
		return takeOver(x, h, f)
	case isFurther(x):
		reply = x.responseHeaders(h, factsOf(x), end)
	default:
		reply = x.responseHeaders(h, f, end)
	}
	if x.c.Unseen && x.state != ended {
		x.state = unseen
	}
	if reply.Again != nil {
		noteStale(x, h)
		return reply
	}
	if isFurther(x) {
		reply = replaceHead(x, reply, h)
	}
	if x.c.Duplex {
		return x.await(reply, end)
	}
	return reply
}

func (x *Exchange) responseHeaders(h Headers, f Facts, end bool) Reply {
	if x.state != awaitResponse {
		return Reply{ResponseBody: None} // Envoy's own answer to a request without a plan
	}
	status, _ := strconv.Atoi(h.Get(":status"))
	x.c.Record.Attempts, x.c.Record.Provider = f.Attempts, envoy.ProviderOf(f.Cluster)
	if p := x.c.Config.Providers[x.c.Record.Provider]; p != nil {
		x.c.Record.Vendor = p.Vendor.Name
	}
	x.c.Record.Status = status
	if f.Attempts > 1 && x.c.Active != nil {
		x.try() // Envoy has told of the attempts before
	}
	switch {
	case f.CodeDetails == realtime.NotUpgraded && x.InSession():
		return x.answer.FailUpstream(provider.ErrNotAnAnswer, "mg_not_upgraded")
	case f.CodeDetails != envoy.CodeDetailsUpstream:
		return answer.Envoys(&x.c, &x.account, status, f.CodeDetails)
	}
	x.c.Record.Answered = status
	x.account.Begun = status >= 200 && status <= 299
	x.account.Refused = !x.account.Begun
	x.room.Release() // of the request: no further attempt follows
	if k := x.c.Active.Kind; k == envoy.KindPassed || k == envoy.KindJobs {
		x.state = inPassage
		return x.passage.Headers(h, status, end)
	}
	return x.planned(h, f, status, end)
}

// planned handles the headers of an answer to a request with a plan of providers.
func (x *Exchange) planned(h Headers, f Facts, status int, end bool) Reply {
	x.guardAnswer()
	if err := x.answer.Take(h, f); err != nil {
		return x.answer.FailUpstream(err, "mg_unplanned_answer")
	}
	letGo(x)
	x.duplex.size = announcedAnswer(h)
	if x.passage != nil && status == realtime.StatusUpgraded {
		x.c.Env.Cooldown.Served(x.c.Provider, x.c.Record.Start)
		x.state = inPassage
		return x.passage.Headers(h, status, end)
	}
	if status < 200 || status > 299 {
		if !end {
			x.state = inError
		}
		return x.answer.ErrorHeaders(h, status, end)
	}
	x.c.Env.Cooldown.Served(x.c.Provider, x.c.Record.Start)
	if h.Get("content-encoding") != "" || end {
		return x.answer.FailUpstream(provider.ErrNotAnAnswer, "mg_bad_answer")
	}
	reply := x.answer.Headers(h)
	switch {
	case x.answer.Decoded.Reader == nil:
		return x.passAnswer(h, reply)
	case x.c.WantsStream:
		return x.beginStream(h, reply)
	}
	x.open(x.c.Operation.Document)
	x.state, reply.ResponseBody = inUnary, Buffered
	x.cached.Collect(answer.TypeJSON)
	reply.Set = append(reply.Set, Header{Name: "content-type", Value: answer.TypeJSON})
	return reply
}

// open prepares the pipeline that writes the answer.
func (x *Exchange) open(write func(chat.Asked) chat.Writer) {
	asked := chat.Asked{Model: x.c.Record.Model, Created: x.c.Record.Start.Unix(), IncludeUsage: x.c.IncludeUsage,
		Plain: x.c.Dialect.Plain, Echo: x.c.Echo, Carrier: x.c.Head.Carrier}
	o := pipeline.Options{Answer: x.answer.Decoded.Reader, Asked: asked, Writer: write(asked), Meter: &x.account.Text}
	if x.c.Guard != nil {
		o.Guard = x.c.Guard
	}
	x.pipe.Reset(o)
}

// beginStream handles the headers of an answer that is translated piece by piece.
func (x *Exchange) beginStream(h Headers, reply Reply) Reply {
	switch media := h.Get("content-type"); {
	case x.c.Provider.Vendor.Streams(media):
	case call.MediaType(media) == answer.TypeJSON: // an error, most likely
		x.open(x.c.Operation.Stream)
		x.state, reply.ResponseBody = inUnary, Buffered
		return reply
	default:
		return x.answer.FailUpstream(pipeline.ErrNotAStream, "mg_not_a_stream")
	}
	x.state, reply.ResponseBody = inStream, Streamed
	x.open(x.c.Operation.Stream)
	reply.Remove = append(reply.Remove, "content-length")
	media := cmp.Or(x.c.Operation.StreamType, answer.TypeSSE)
	reply.Set = append(reply.Set, Header{Name: "content-type", Value: media},
		Header{Name: "cache-control", Value: "no-cache"})
	x.cached.Collect(media)
	return reply
}

// ResponseBody handles a piece of an answer's body, or the whole body if it is not streamed.
func (x *Exchange) ResponseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.c.Duplex {
		return x.nextPiece(ctx, piece, end)
	}
	reply := x.responseBody(ctx, piece, end)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	x.c.Sent(piece)
	return reply
}

func (x *Exchange) responseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.c.Record.FirstByte.IsZero() {
		x.c.Record.FirstByte = x.c.Env.Now()
	}
	x.account.Received += int64(len(piece))
	x.beginJudging(len(piece))
	defer x.turn.Release()
	switch x.state {
	case inStream:
		return x.streamPiece(ctx, piece, end)
	case inPassed:
		return x.answer.PassPiece(ctx, piece, end)
	case inPassage:
		return x.passage.Body(ctx, piece, end)
	case inUnary:
		return x.wholeBody(ctx, piece)
	case inJudged:
		if x.room.IsMissing {
			x.salvage(piece)
			return x.answer.ReplaceByError(call.ErrNoRoom)
		}
		return x.answer.JudgedWhole(ctx, piece)
	case inError:
		e := x.answer.Error(piece)
		if x.mayCountInstead(e) {
			return x.countInstead()
		}
		return x.answer.ReplaceByError(e)
	}
	return Reply{ReplaceBody: true} // bytes after the end mark or the error of a stream
}

// wholeBody handles a complete answer.
func (x *Exchange) wholeBody(ctx context.Context, body []byte) Reply {
	if x.room.IsMissing {
		x.salvage(body)
		return x.answer.ReplaceByError(call.ErrNoRoom)
	}
	out, err := x.pipe.Whole(ctx, body)
	if call.HasLeft(err) {
		return Reply{ReplaceBody: true}
	}
	if x.c.WantsStream && (err == nil || !answer.IsRefusal(err)) {
		err = pipeline.ErrNotAStream
	}
	if err != nil {
		x.salvage(body)
		return x.answer.ReplaceByError(err)
	}
	x.c.Record.Outcome = metering.OutcomeFinished
	x.account.Text.Report(x.pipe.Usage())
	x.c.Finish()
	set := append(x.sized[:0], Header{Name: "content-length", Value: strconv.Itoa(len(out))})
	if x.account.WantsCost && x.c.Record.Priced {
		set = append(set, Header{Name: answer.HeaderCost, Value: x.c.Record.Cost.String()})
	}
	return Reply{ReplaceBody: true, Body: out, Set: set}
}

func (x *Exchange) streamPiece(ctx context.Context, piece []byte, end bool) Reply {
	out, err := x.pipe.Piece(ctx, piece, end)
	x.c.Chunks(x.pipe.Chunks())
	x.account.Text.Report(x.pipe.Usage())
	switch {
	case x.pipe.HasEnded():
		x.c.Record.Outcome = metering.OutcomeFinished
		x.c.Finish()
	case call.HasLeft(err):
		return Reply{ReplaceBody: true}
	case err != nil && !x.pipe.HasOutput():
		return x.answer.FailUpstream(err, "mg_failed_stream")
	case err != nil:
		x.answer.Sent = true
		out = append(slices.Clone(out), x.pipe.Fail(x.answer.Fail(err))...) // the writer owns the bytes so far
	}
	return Reply{ReplaceBody: true, Body: out}
}
