package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	// maxClaims is how many responses a replica has claimed at once. Most of them wait for the turn of their tenant.
	maxClaims = 1024
	// maxRuns is how many workers may take a response: a response whose workers die that often ends.
	maxRuns = 5
	// taskCopies is how often the documents of a response are in memory while it is made.
	taskCopies = 3
)

// errEnded means that the client has cancelled or deleted the response.
var errEnded = errors.New("the response has ended")

// A worker makes one background response. One goroutine uses it.
type worker struct {
	*Service
	claim *queue.Claim
	r     *store.Record[Response] // as last read or written
	turn  *turn
	held  *memory.Hold

	events []byte // that are not logged yet
	first  int64  // number of the first of them
	next   int64  // number of the next event
}

// work handles one item of the queue.
func (s *Service) work(ctx context.Context, c *queue.Claim) error {
	var at item
	if err := json.Unmarshal(c.Value, &at); err != nil {
		return fmt.Errorf("response %s: %w", c.ID, err)
	}
	r, err := Kind.Get(ctx, s.Store, at.Tenant, c.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Value.Status.Over() {
		return c.Dequeue(ctx, s.Store)
	}
	if err != nil {
		return err
	}
	settings, err := s.settings()
	if err != nil {
		return fmt.Errorf("response %s: %w", c.ID, err)
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	seen := *r // the worker changes its own
	go s.watch(running, &seen, stop)
	turn := s.turnOf(at.Tenant)
	if err = turn.Acquire(running, 1); err == nil {
		w := &worker{Service: s, claim: c, r: r, turn: restored(r, settings.Sealer)}
		err = w.run(running)
		turn.Release(1)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(running), errEnded):
		return c.Dequeue(ctx, s.Store)
	case err != nil:
		return fmt.Errorf("response %s: %w", c.ID, err)
	}
	return nil
}

// turnOf returns the semaphore of a tenant.
func (s *Service) turnOf(t store.Tenant) *semaphore.Weighted {
	turn, _ := s.turns.LoadOrStore(t, semaphore.NewWeighted(int64(s.Limits.Background)))
	return turn.(*semaphore.Weighted) //nolint:forcetypeassert // nothing else is stored
}

// watch stops a worker whose response has been cancelled or deleted.
func (s *Service) watch(ctx context.Context, r *store.Record[Response], stop context.CancelCauseFunc) {
	for range Kind.Watch(ctx, s.Store, r) {
		now, err := Kind.Get(ctx, s.Store, r.Tenant, r.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && now.Value.Status.Over() {
			stop(errEnded)
			return
		}
	}
}

// run makes the response. If an earlier worker has got the answer and died, it is stored without being asked again.
func (w *worker) run(ctx context.Context) error {
	w.held = w.Memory.Work(store.Owner{Tenant: w.r.Tenant, Key: w.r.Value.Key}.Accounts()[0].String())
	defer w.held.Release()
	if err := w.held.Take(ctx, taskCopies*w.r.Value.Bytes); err != nil {
		return err
	}
	ctx = memory.With(ctx, w.held)
	if w.r.Value.Log.Runs > 0 {
		object, err := w.vault.read(ctx, w.turn.sealer, folderOf(w.r)+w.r.Value.Log.answer())
		switch {
		case err == nil:
			return w.finish(ctx, object)
		case !isMissing(err):
			return err
		}
	}
	if err := w.take(ctx); err != nil {
		return err
	}
	todo, err := w.task(ctx)
	switch {
	case isMissing(err):
		return w.fail(ctx, lostJob)
	case err != nil:
		return err
	case w.r.Value.Log.Runs > maxRuns:
		return w.fail(ctx, doomed)
	}
	limited, cancel := context.WithDeadline(ctx, time.Unix(w.r.Value.CreatedAt, 0).Add(w.Limits.Answer))
	defer cancel()
	object, err := w.answer(limited, todo.Body)
	refused, failed := errors.AsType[*failure](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed:
		return w.fail(ctx, refused)
	case err != nil:
		return err
	}
	return w.finish(ctx, object)
}

// task reads what is to be done.
func (w *worker) task(ctx context.Context) (t task, err error) {
	text, err := w.vault.read(memory.With(ctx, nil), w.turn.sealer, folderOf(w.r)+docTask) // run has taken it
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return t, errors.Join(errMissing, err)
	}
	return t, nil
}

// take begins a run.
func (w *worker) take(ctx context.Context) error {
	v := &w.r.Value
	status, ok := v.Status.Next(job.ResponseTaken)
	if !ok {
		return errEnded
	}
	v.Status = status
	v.Log = Log{Runs: v.Log.Runs + 1, Epoch: w.claim.Epoch, Base: v.Log.Next, Next: v.Log.Next}
	w.first, w.next = v.Log.Next, v.Log.Next
	return w.update(ctx)
}

// update writes the record, if the claim is still held.
func (w *worker) update(ctx context.Context) error {
	t := w.Store.Begin()
	t.Require(w.claim.Held())
	Kind.Update(t, w.r)
	return t.Commit(ctx)
}

// restored returns as much of a response's turn as its answer needs.
func restored(r *store.Record[Response], sealer *secret.Sealer) *turn {
	v := &r.Value
	return &turn{
		request: &request{background: true, store: true, previous: v.Previous, conversation: v.Conversation},
		id:      r.ID, caller: rest.Caller{Tenant: r.Tenant}, sealer: sealer,
	}
}

// fail ends the response with an error.
func (w *worker) fail(ctx context.Context, f *failure) error {
	pending, err := w.vault.read(ctx, w.turn.sealer, folderOf(w.r)+docPending)
	if err != nil && !isMissing(err) {
		return err
	}
	w.Log.Info("a background response has failed", zap.String("response", w.r.ID), zap.String("code", f.code))
	return w.finish(ctx, f.failed(pending))
}

// endings are the events by which a response ends. Any other status belongs to an answer that broke.
var endings = map[job.ResponseStatus]job.ResponseEvent{
	job.ResponseCompleted: job.ResponseAnswered, job.ResponseIncomplete: job.ResponseStopped,
	job.ResponseFailed: job.ResponseBroken, job.ResponseCancelled: job.ResponseBroken,
}

// finish stores the answer. The document is written first: it is enough to end the response after a crash.
func (w *worker) finish(ctx context.Context, object []byte) error {
	v := &w.r.Value
	next, ok := v.Status.Next(endings[statusOf(object)])
	if !ok {
		return errEnded
	}
	said, err := outputOf(object)
	if err != nil {
		return err
	}
	object = w.turn.own(object)
	if err := w.vault.write(ctx, w.turn.sealer, folderOf(w.r)+v.Log.answer(), object); err != nil {
		return err
	}
	if v.Conversation != "" {
		if err := w.join(ctx); err != nil {
			return err
		}
	}
	v.Status, v.Answer = next, v.Log.answer()
	v.Bytes += int64(len(object))
	return w.commit(ctx, w.turn, said, next, func(t *store.Txn) {
		t.Require(w.claim.Held())
		Kind.Update(t, w.r)
		t.Do(queue.Remove(queueKind, w.r.ID))
	})
}

// join reads what the turn adds to its conversation. One that was deleted meanwhile needs nothing.
func (w *worker) join(ctx context.Context) error {
	todo, err := w.task(ctx)
	if err != nil && !isMissing(err) {
		return err
	}
	w.turn.added = todo.Added
	w.turn.conversation, err = w.conversations.find(ctx, w.r.Tenant, w.r.Value.Conversation)
	if e, ok := errors.AsType[*openai.Error](err); ok && e.Status == http.StatusNotFound {
		return nil
	}
	return err
}
