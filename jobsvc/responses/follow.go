package responses

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// firstEvents is how many events a background response has before a worker takes it: that it is created, and queued.
const firstEvents = 2

// alive is how often a comment is sent on a stream that has no events, so that nobody takes it for dead.
const alive = 15 * time.Second

// A follower passes the events of a background response to a client, as workers log them.
type follower struct {
	*Service
	out    *sink
	r      *store.Record[Response]
	sealer *secret.Sealer
	next   int64 // number of the event that the client gets next
}

// follow streams the events of a response from one on, until the response or the client ends.
func (s *Service) follow(w http.ResponseWriter, r *http.Request, found *store.Record[Response], sealer *secret.Sealer,
	next int64) error {
	f := &follower{s, nil, found, sealer, next}
	if f.stale() {
		return openai.CodeInvalidValue.On("starting_after", "%s", begunAgain.message)
	}
	f.out = beginStream(w)
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	if err := f.run(ctx); err != nil && ctx.Err() == nil {
		_ = f.out.write(appendErrorEvent(nil, f.failure(err), f.next)) // the client has left
	}
	return nil
}

// failure returns the client's form of an error.
func (f *follower) failure(err error) *failure {
	if failed, ok := errors.AsType[*failure](err); ok {
		return failed
	}
	if e, ok := errors.AsType[*openai.Error](err); ok { // such as that it was deleted
		return &failure{code: serverError, message: e.Message}
	}
	f.Log.Warn("the events of a response cannot be read", zap.String("response", f.r.ID), zap.Error(err))
	return eventsAway
}

func (f *follower) run(ctx context.Context) error {
	changed := Kind.Watch(ctx, f.Store, f.r)
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for {
		over, err := f.pass(ctx)
		if err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := f.out.write([]byte(": waiting\n\n")); err != nil {
				return err
			}
			continue
		case _, ok := <-changed:
			if !ok {
				return errors.New("the watch ended")
			}
		}
		now, err := f.findResponse(ctx, f.r.Tenant, f.r.ID)
		if err != nil {
			return err
		}
		f.r = now
		if f.stale() {
			return begunAgain
		}
	}
}

// stale reports whether the client has seen events of an answer that was given up.
func (f *follower) stale() bool {
	return f.next > firstEvents && f.next <= f.r.Value.Log.Base
}

// pass passes what there is, and reports whether that is the end.
func (f *follower) pass(ctx context.Context) (over bool, err error) {
	log := &f.r.Value.Log
	if f.next < firstEvents {
		if err := f.begin(ctx); err != nil {
			return false, err
		}
	}
	f.next = max(f.next, log.Base)
	for i := range log.Parts {
		if log.end(i) <= f.next {
			continue
		}
		giveBack := memory.Of(ctx).Mark()
		events, err := f.vault.read(ctx, f.sealer, folderOf(f.r)+log.document(i))
		if err != nil {
			return false, lost(err, "response", f.r.ID)
		}
		err = f.out.write(since(events, f.next))
		giveBack()
		if err != nil {
			return false, err
		}
	}
	if f.next > log.Next { // the client has seen the last event
		return true, nil
	}
	f.next = log.Next
	if !f.r.Value.Status.Over() {
		return false, nil
	}
	return true, f.last(ctx)
}

// begin passes the events that no worker logs.
func (f *follower) begin(ctx context.Context) error {
	defer memory.Of(ctx).Mark()()
	pending, err := f.vault.read(ctx, f.sealer, folderOf(f.r)+docPending)
	if err != nil {
		return lost(err, "response", f.r.ID)
	}
	for ; f.next < firstEvents; f.next++ {
		name := [firstEvents]string{"response.created", "response.queued"}[f.next]
		if err := f.out.write(appendResponseEvent(nil, name, pending, f.next)); err != nil {
			return err
		}
	}
	return nil
}

// last passes the event with the complete response. There is none for a cancelled one: the clients of OpenAI know it
// as incomplete.
func (f *follower) last(ctx context.Context) error {
	object, err := f.object(ctx, f.r, f.sealer)
	if err != nil {
		return err
	}
	status := f.r.Value.Status
	if status == job.ResponseCancelled {
		status = job.ResponseIncomplete
	}
	return f.out.write(appendResponseEvent(nil, "response."+string(status), object, f.next))
}

// appendResponseEvent appends an event with a response object.
func appendResponseEvent(dst []byte, name string, object []byte, sequence int64) []byte {
	return appendEvent(dst, name, replaced(nil, set("type", text(name)),
		set("sequence_number", fmt.Append(nil, sequence)), set("response", object)))
}

// since returns the events with a number of at least next.
func since(events []byte, next int64) []byte {
	var d sse.Decoder
	d.Feed(events)
	var out []byte
	for {
		e, ok, err := d.Next()
		if err != nil || !ok {
			return out
		}
		if gjson.GetBytes(e.Data, "sequence_number").Int() >= next {
			out = appendEvent(out, e.Name, bytes.TrimSpace(e.Data))
		}
	}
}
