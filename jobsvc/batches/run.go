package batches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// lookAgain is how long passes at least between two looks at the record because something has changed it.
const lookAgain = time.Second

// run asks the lines that have no answer yet. It returns nil once the batch is closed.
func (w *work) run(ctx context.Context) error {
	done, err := w.done(ctx)
	if errors.Is(err, errBroken) && w.rec.Value.Epoch > w.claim.Epoch {
		// Epochs only grow, but for an etcd that was restored: the segments that it names have since been joined and
		// removed.
		done, err = &set{}, w.begin(ctx)
	}
	if errors.Is(err, errBroken) {
		return w.close(ctx, lost, answersGone)
	}
	if err != nil {
		return err
	}
	switch err := w.traced(ctx, func(t *lineTrace) error { return w.askAll(ctx, done, t) }); {
	case err == nil:
		return w.close(ctx, drained)
	case errors.Is(err, errCancelled):
		return w.close(ctx, cancelled)
	case errors.Is(err, errExpired):
		return w.close(ctx, expired)
	case errors.Is(err, files.ErrMissing):
		return w.close(ctx, lost, inputGone)
	default:
		return err
	}
}

// begin has the batch begin anew. Lines that were charged are not charged again.
func (w *work) begin(ctx context.Context) error {
	w.log.Warn("etcd was restored and answers of the batch are gone since: its lines are asked again")
	return w.change(ctx, func(b *Batch, _ *store.Txn) error {
		b.Head, b.Usage, b.Charge = "", openai.Usage{}, Charge{}
		b.Counts.Completed, b.Counts.Failed = 0, 0
		return nil
	})
}

// done reads from the chain which lines have answers.
func (w *work) done(ctx context.Context) (*set, error) {
	done := &set{}
	err := w.eachAnswer(ctx, func(_ byte, line int, _ []byte) error {
		if !done.add(line) {
			return fmt.Errorf("line %d was answered twice: %w", line, errBroken)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c := w.rec.Value.Counts; done.n != c.Completed+c.Failed {
		return nil, fmt.Errorf("%d answers of %d: %w", done.n, c.Completed+c.Failed, errBroken)
	}
	return done, nil
}

// eachAnswer gives each durable answer to take, in the order in which they became durable.
func (w *work) eachAnswer(ctx context.Context, take func(kind byte, line int, answer []byte) error) error {
	names, err := chain(ctx, w.s.Bucket, w.rec.ID, w.rec.Value.Head)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := readSegment(ctx, w.s.Bucket, w.rec.ID, name, take); err != nil {
			return err
		}
	}
	return nil
}

// A running is a batch whose lines are being asked.
type running struct {
	s                         *Service
	batch, key, project, path string
	results                   *results
	open                      *budget // of lines: see Limits.Open
	lanes                     map[string]*lane
	trace                     *lineTrace
	workers                   sync.WaitGroup
	left                      atomic.Int64 // lines that were handed out, but have no answer
}

// A lane is the lines of one model. Models that are slow do not hold up others before all open lines are theirs.
type lane struct {
	shared  *shared
	queue   chan *line // has room for all open lines
	workers int
}

// askAll asks all lines but those that are done. The error is why lines are left: errCancelled or errExpired,
// ctx's, or the reader's; answers that came in time are durable all the same, unless the error is errLost.
func (w *work) askAll(ctx context.Context, done *set, t *lineTrace) error {
	begin, stop := context.WithCancelCause(ctx) // ends when no more lines are begun
	defer stop(nil)
	asking, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	writing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	// When the replica stops, or the claim may be lost, what was paid for is still written if that is soon.
	defer after(ctx, 2*w.s.Limits.Goodbye, giveUp)()
	defer after(begin, w.s.Limits.Grace, abandon)()
	defer after(ctx, w.s.Limits.Goodbye, abandon)()
	b := &w.rec.Value
	expiry := time.AfterFunc(time.Unix(b.ExpiresAt, 0).Sub(w.s.Now()), func() { stop(errExpired) })
	defer expiry.Stop()

	open := newBudget(int64(w.s.Limits.Open))
	r := &running{s: w.s, batch: w.rec.ID, key: b.Key, project: w.rec.Tenant.Project, path: b.Endpoint, open: open,
		lanes: map[string]*lane{}, trace: t}
	r.results = w.newResults(func(lines int) {
		open.put(int64(lines))
		if w.rec.Value.Status == job.BatchCancelling { // as the write has found
			stop(errCancelled)
		}
	})
	var others sync.WaitGroup
	var flushErr error
	others.Go(func() {
		if flushErr = r.results.flush(writing); flushErr != nil {
			stop(flushErr)
			abandon()
		}
	})
	tenant, id := w.rec.Tenant, w.rec.ID
	others.Go(func() { w.s.follow(begin, tenant, id, stop) })

	err := w.input().each(begin, done, func(number int, q request) error { return r.hand(begin, asking, q, number) })
	if err != nil {
		stop(err)
	}
	r.wait()
	why := context.Cause(begin)
	stop(nil)
	r.results.end()
	others.Wait()
	r.results.drop()
	switch {
	case flushErr != nil:
		return flushErr
	case err == nil && r.left.Load() == 0:
		return nil
	}
	return why
}

// wait waits until all lines that were handed out have an answer, or will have none.
func (r *running) wait() {
	for _, l := range r.lanes {
		close(l.queue)
	}
	r.workers.Wait()
	for model := range r.lanes {
		r.s.paces.free(user{r.key, model})
	}
}

// after calls f some time after ctx has ended, unless what it returns is called before.
func after(ctx context.Context, d time.Duration, f func()) (cancel func()) {
	over := make(chan struct{})
	var timer *time.Timer
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		timer = time.AfterFunc(d, f)
	})
	return func() {
		if !stop() {
			<-over
			timer.Stop()
		}
	}
}

// follow watches for a cancel until ctx ends.
func (s *Service) follow(ctx context.Context, tenant store.Tenant, id string, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if rec, err := Kind.Get(ctx, s.Store, tenant, id); err == nil {
			if rec.Value.Status == job.BatchCancelling {
				stop(errCancelled)
				s.Log.Info("the batch is cancelled; no more of its lines are begun", zap.String("batch", id))
				return
			}
			s.next(ctx, rec)
		}
		_ = timing.Sleep(ctx, lookAgain) // the loop ends where ctx has
	}
}

// next waits until the record may have changed.
func (s *Service) next(ctx context.Context, rec *store.Record[Batch]) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-Kind.Watch(ctx, s.Store, rec):
	case <-ctx.Done():
	}
}

// hand gives a line to its lane once there is room.
func (r *running) hand(begin, asking context.Context, q request, number int) error {
	if err := r.open.take(begin, 1); err != nil {
		return err
	}
	size := int64(len(q.customID) + len(q.body))
	if err := r.results.w.take(begin, size); err != nil {
		return err
	}
	// A transport may read a body for some time after the answer: each line has memory of its own.
	text := slices.Concat(q.customID, q.body)
	n := len(q.customID)
	next := &line{number: number, customID: text[:n:n], body: text[n:], maxTokens: q.maxTokens}
	l := r.lanes[q.model]
	if l == nil {
		l = &lane{shared: r.s.paces.use(user{r.key, q.model}), queue: make(chan *line, r.s.Limits.Open)}
		r.lanes[q.model] = l
	}
	l.queue <- next
	if l.workers < r.s.Limits.Lines {
		l.workers++
		r.workers.Go(func() { r.ask(begin, asking, l) })
	}
	return nil
}

// ask asks the lines of a lane, until there are no more.
func (r *running) ask(begin, asking context.Context, l *lane) {
	a := asker{s: r.s, held: r.results.w.held, key: r.key, project: r.project, batch: r.batch, path: r.path,
		shared: l.shared, trace: r.trace, met: &r.results.met}
	for next := range l.queue {
		if got, ok := a.ask(begin, asking, next); ok {
			r.results.add(next.number, next.customID, &got)
		} else {
			r.left.Add(1)
			r.open.put(1)
		}
		a.done()
		r.results.w.put(next.size())
	}
}
