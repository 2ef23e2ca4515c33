package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Why a worker stops.
var (
	errLost      = errors.New("another worker may have the batch")
	errPutOff    = errors.New("there is nothing to do before a later time")
	errCancelled = errors.New("the batch is to be cancelled")
	errExpired   = errors.New("the window of the batch is over")
)

var (
	inputGone   = Problem{Code: openai.CodeInputFileUnavailable, Message: "The input file is not available any more."}
	answersGone = Problem{Code: openai.CodeResultsUnavailable,
		Message: "Answers of this batch were lost in the gateway's storage. Create the batch again."}
)

// A work is a batch that this replica has claimed. Its methods are called by one goroutine at a time.
type work struct {
	s        *Service
	claim    *queue.Claim
	rec      *store.Record[Batch] // as it was last read or written
	write    int64                // number of the last write that was tried
	segments int                  // number of the last segment under this claim: no two have one name
	log      *zap.Logger
	held     *memory.Hold // of lines and answers; nil: nothing bounds them
}

// handle works on a batch until it is over, or put off. Each step begins with the record's state, and ends with a
// write of it.
func (s *Service) handle(ctx context.Context, c *queue.Claim) error {
	var tenant store.Tenant
	if err := json.Unmarshal(c.Value, &tenant); err != nil {
		return fmt.Errorf("item of %s: %w", c.ID, err)
	}
	rec, err := Kind.Get(ctx, s.Store, tenant, c.ID)
	if errors.Is(err, store.ErrNotFound) {
		return c.Dequeue(ctx, s.Store)
	}
	if err != nil {
		return err
	}
	w := &work{s: s, claim: c, rec: rec, log: s.Log.With(zap.String("batch", c.ID)),
		held: s.Memory.Work(store.Owner{Tenant: tenant, Key: rec.Value.Key}.Accounts()[0].String())}
	defer w.held.Release()
	ctx = memory.With(ctx, w.held)
	if !w.rec.Value.Status.Over() {
		if err := w.steps(ctx); errors.Is(err, errPutOff) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := w.clean(ctx); err != nil {
		return err
	}
	return c.Dequeue(ctx, s.Store)
}

// steps works until the batch is over.
func (w *work) steps(ctx context.Context) error {
	for !w.rec.Value.Status.Over() {
		if err := w.step(ctx); err != nil {
			return err
		}
	}
	b := &w.rec.Value
	w.s.metrics.ended(b.Status)
	w.log.Info("batch ended", zap.String("status", string(b.Status)), zap.Int("lines", b.Counts.Total),
		zap.Int("completed", b.Counts.Completed), zap.Int("failed", b.Counts.Failed))
	return nil
}

// step does what the state of the batch asks for.
func (w *work) step(ctx context.Context) error {
	b := &w.rec.Value
	over := !w.s.Now().Before(time.Unix(b.ExpiresAt, 0))
	switch {
	case b.Closing != nil:
		return w.finish(ctx)
	case b.Native.active():
		return delegate{w}.advance(ctx)
	case b.Status == job.BatchCancelling:
		return w.close(ctx, cancelled)
	case over:
		return w.close(ctx, expired)
	case b.Status == job.BatchValidating:
		return w.validate(ctx)
	}
	return w.run(ctx)
}

// change writes the record as edit makes it, as long as the claim is held. What the API has changed meanwhile stays:
// edit is then called again. Members of the batch are replaced, not modified. The error is errLost if the claim was
// lost, or edit's.
func (w *work) change(ctx context.Context, edit func(*Batch, *store.Txn) error) error {
	first := w.write + 1
	for failures := 0; ; {
		next := *w.rec
		w.write++
		next.Value.Epoch, next.Value.Write = w.claim.Epoch, w.write
		t := w.s.Store.Begin()
		if err := edit(&next.Value, t); err != nil {
			return err
		}
		Kind.Update(t, &next)
		t.Require(w.claim.Held())
		err := t.Commit(ctx)
		if err == nil {
			w.rec = &next
			return nil
		}
		done, readErr := w.reread(ctx, first, err)
		switch {
		case done || errors.Is(readErr, errLost):
			return readErr
		case ctx.Err() != nil:
			return ctx.Err()
		case readErr != nil || !errors.Is(err, store.ErrConflict):
			failures++
			in := backoff(failures)
			w.log.Warn("the state of the batch cannot be written", zap.Duration("again_in", in),
				zap.Error(errors.Join(err, readErr)))
			if err := timing.Sleep(ctx, in); err != nil {
				return err
			}
		}
	}
}

// reread reads the record after a write that failed, or whose answer did not come. It reports whether one since first
// was made all the same. The error is errLost if only a lost claim can be why it was not.
func (w *work) reread(ctx context.Context, first int64, failed error) (done bool, err error) {
	rec, err := Kind.Get(ctx, w.s.Store, w.rec.Tenant, w.rec.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, errLost
	}
	if err != nil {
		return false, err
	}
	b, before := &rec.Value, &w.rec.Value
	switch {
	case b.Epoch == w.claim.Epoch && b.Write >= first:
		w.rec = rec
		return true, nil
	case b.Epoch != before.Epoch || errors.Is(failed, store.ErrConflict) && rec.Revision == w.rec.Revision:
		return false, errLost
	}
	w.rec = rec
	return false, nil
}

// close records that no more lines are asked, and under which ids the files are written.
func (w *work) close(ctx context.Context, why reason, problems ...Problem) error {
	return w.change(ctx, func(b *Batch, _ *store.Txn) error {
		c := &Closing{Reason: why, Output: newFileID(), Error: newFileID()}
		if b.Status == job.BatchCancelling && why != lost {
			c.Reason = cancelled
		}
		b.Closing = c
		if len(problems) > 0 {
			b.Errors = problems
		}
		if c.Reason == drained {
			return b.to(job.BatchDrained, w.s.Now())
		}
		return nil
	})
}

// end makes a transaction the one that ends the batch.
func (w *work) end(b *Batch, t *store.Txn, e job.BatchEvent) error {
	now := w.s.Now()
	if err := b.to(e, now); err != nil {
		return err
	}
	t.Free(b.InputFile, w.rec.ID)
	if w.s.Announce != nil {
		w.s.Announce(t, w.rec.Tenant, "batch."+string(b.Status), w.rec.ID, now)
	}
	return w.announceCharge(t, b, now)
}

func (w *work) names() naming {
	return naming{batch: w.rec.ID, created: time.Unix(w.rec.Value.CreatedAt, 0)}
}
