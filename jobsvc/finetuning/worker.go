package finetuning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	callTimeout   = 2 * time.Minute
	uploadTimeout = 2 * time.Hour
	// outageAfter is the number of failures in a row, over about fifteen seconds, that are an outage. The client
	// sees it.
	outageAfter = 5
	// maxRetryAfter is the longest pause that a provider can ask for.
	maxRetryAfter = 10 * time.Minute
	// maxRefusals is how often in a row a provider may refuse to say how a job stands before that is believed: about two
	// minutes.
	maxRefusals = 8
)

var (
	// errLost means that another has the job now.
	errLost = errors.New("the claim was lost")
	// errNotConfigured means that the job's provider is gone, disabled, or trains no more.
	errNotConfigured = errors.New("the job's provider is not configured")
)

// A worker takes one claimed job as far as it goes. It is used by one goroutine.
type worker struct {
	*Service
	claim *queue.Claim
	job   *store.Record[Job] // as last read or written

	pause    time.Duration // before the provider is asked again how the job stands
	answered bool          // the provider answered in this step
	failures int           // in a row
	refusals int           // in a row
	nameless int           // reports in a row of a success without a model
	seen     seen          // nil: not read yet
}

// work handles one item of the queue.
func (s *Service) work(ctx context.Context, c *queue.Claim) error {
	var at item
	if err := json.Unmarshal(c.Value, &at); err != nil {
		return fmt.Errorf("job %s: %w", c.ID, err)
	}
	found, err := Kind.Get(ctx, s.Store, at.Tenant, c.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && found.Value.Status.Over() {
		return c.Dequeue(ctx, s.Store)
	}
	if err != nil {
		return err
	}
	w := &worker{Service: s, claim: c, job: found, pause: s.Soon}
	changed := Kind.Watch(ctx, s.Store, found)
	for !w.job.Value.Status.Over() {
		wait, err := w.turn(ctx)
		if errors.Is(err, errLost) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("job %s: %w", c.ID, err)
		}
		if changed, err = w.sleep(ctx, changed, wait); err != nil {
			return fmt.Errorf("job %s: %w", c.ID, err)
		}
	}
	return nil
}

// sleep waits until a time is over or a client has asked for something. It returns the watch to wait on next time.
func (w *worker) sleep(ctx context.Context, changed <-chan struct{}, wait time.Duration) (<-chan struct{}, error) {
	if wait == 0 {
		return changed, ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			if changed == nil {
				changed = Kind.Watch(ctx, w.Store, w.job)
			}
			return changed, nil
		case _, ok := <-changed:
			if !ok {
				changed = nil // what has ended once may end again at once: not before the time is over
				continue
			}
		}
		fresh, err := Kind.Get(ctx, w.Store, w.job.Tenant, w.job.ID)
		if err != nil {
			return nil, err
		}
		if fresh.Revision != w.job.Revision { // else it was our own change
			w.job, w.pause = fresh, w.Soon
			return changed, nil
		}
	}
}

// update changes the job, as long as the claim is held. Change is called again where a client has written to the job
// in the meantime; it fills the transaction, and replaces what it changes of slices and maps.
func (w *worker) update(ctx context.Context, change func(*store.Txn, *store.Record[Job])) error {
	for {
		next := *w.job
		t := w.Store.Begin()
		t.Require(w.claim.Held())
		change(t, &next)
		Kind.Update(t, &next)
		err := t.Commit(ctx)
		if err == nil {
			w.job = &next
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		fresh, err := Kind.Get(ctx, w.Store, w.job.Tenant, w.job.ID)
		if err != nil {
			return err
		}
		if fresh.Revision == w.job.Revision || fresh.Value.Status.Over() {
			return errLost
		}
		w.job = fresh
	}
}

// A setback is that a call of a provider failed.
type setback struct {
	err error
	// refused is called once the provider has refused so many times in a row, or has failed limit times in a row in any
	// way (0: never for that).
	refused  func(context.Context, *openai.Error) error
	patience int
	limit    int
}

func (s *setback) Error() string { return s.err.Error() }
func (s *setback) Unwrap() error { return s.err }

// call asks the provider. Its error is a setback with what to do where the provider refuses.
func (w *worker) call(ctx context.Context, timeout time.Duration, f func(context.Context) error,
	refused func(context.Context, *openai.Error) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := f(limited); err != nil {
		return &setback{err: err, refused: refused, patience: 1}
	}
	w.answered = true
	return nil
}

// refusal returns the provider's last word, or nil for an error after which it is to be asked again.
func refusal(err error) *openai.Error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.Status < 400 || e.Status > 499 {
		return nil
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return nil
	}
	return e
}

// turn takes one step, and returns how long to wait before the next.
func (w *worker) turn(ctx context.Context) (time.Duration, error) {
	w.answered = false
	wait, err := w.step(ctx)
	failed, ok := errors.AsType[*setback](err)
	if ok && ctx.Err() == nil {
		return w.failed(ctx, failed)
	}
	if err != nil {
		return 0, err
	}
	if w.answered {
		w.failures, w.refusals = 0, 0
		if w.job.Value.Outage != 0 {
			err = w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
				r.Value.Outage = 0
				w.note(t, r, "info", fmt.Sprintf("The provider '%s' takes the job further again.", r.Value.Provider))
			})
		}
	}
	return wait, err
}

// failed decides what to do after a setback.
func (w *worker) failed(ctx context.Context, s *setback) (time.Duration, error) {
	w.failures++
	word := refusal(s.err)
	if w.refusals++; word == nil {
		w.refusals = 0
	}
	if w.refusals >= s.patience && word != nil || s.limit > 0 && w.failures >= s.limit {
		w.failures, w.refusals = 0, 0
		return 0, s.refused(ctx, word)
	}
	if w.failures >= outageAfter {
		if errors.Is(s.err, errNotConfigured) && w.job.Value.Cancelling && w.job.Value.Outcome == nil {
			return 0, w.conclude(ctx, Outcome{Status: job.TuningCancelled},
				"The provider is not configured any more and was not told: what it has begun may go on there.")
		}
		if err := w.outage(ctx, s.err); err != nil {
			return 0, err
		}
	}
	wait := min(w.Soon<<min(w.failures-1, 20), w.Late)
	if e, ok := errors.AsType[*openai.Error](s.err); ok {
		wait = max(wait, min(e.RetryAfter, maxRetryAfter)) // the provider's own wish
	}
	return wait, nil
}

// outage tells once that the provider does not take the job further.
func (w *worker) outage(ctx context.Context, cause error) error {
	if w.job.Value.Outage != 0 {
		return nil
	}
	w.Log.Warn("a provider does not take a fine-tuning job further; it is asked again until it does",
		zap.String("job", w.job.ID), zap.String("provider", w.job.Value.Provider), zap.Error(cause))
	return w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
		r.Value.Outage = w.Now().Unix()
		w.note(t, r, "warn",
			fmt.Sprintf("The provider '%s' does not take the job further at the moment. It is asked again until it does.",
				r.Value.Provider))
	})
}

// conclude notes how the job has ended, and why if there is something to say.
func (w *worker) conclude(ctx context.Context, o Outcome, warning string) error {
	if before := w.job.Value.Outcome; before != nil {
		o.ResultFiles = before.ResultFiles
	}
	return w.update(ctx, func(t *store.Txn, r *store.Record[Job]) {
		r.Value.Outcome, r.Value.Ask = &o, ""
		if warning != "" {
			w.note(t, r, "warn", warning)
		}
	})
}

// fail notes that the job has failed.
func (w *worker) fail(ctx context.Context, code openai.Code, param, message string) error {
	ours := w.job.Value.translator(w.job.Tenant, w.job.ID, "")
	e := &provider.TuningError{Code: code, Message: clip(ours.Replace(message), maxMessage), Param: clip(param, maxID)}
	return w.conclude(ctx, Outcome{Status: job.TuningFailed, Error: e}, "")
}

// trainer returns who trains the job.
func (w *worker) trainer() (provider.FineTuner, *provider.Client, error) {
	var p *config.Provider
	if c := w.Config(); c != nil {
		p = c.Providers[w.job.Value.Provider]
	}
	if p == nil || p.Vendor.FineTuning == nil {
		return nil, nil, &setback{err: errNotConfigured, patience: maxRefusals}
	}
	return p.Vendor.FineTuning, w.Gateway.Provider(p), nil
}

// step does what is to be done next, and returns how long to wait afterwards.
func (w *worker) step(ctx context.Context) (time.Duration, error) {
	j := &w.job.Value
	if j.Outcome != nil {
		return 0, w.finish(ctx)
	}
	tuner, client, err := w.trainer()
	if err != nil {
		return 0, err
	}
	switch {
	case j.Remote.Training == "":
		return 0, w.upload(ctx, tuner, client, j.Training, "training_file", openai.CodeInvalidTrainingFile,
			func(r *Remote, id string) { r.Training = id })
	case j.Validation != nil && j.Remote.Validation == "":
		return 0, w.upload(ctx, tuner, client, *j.Validation, "validation_file", openai.CodeInvalidValidationFile,
			func(r *Remote, id string) { r.Validation = id })
	case j.Remote.Job == "":
		return 0, w.createThere(ctx, tuner, client)
	case j.Ask != "" && (j.Ask == askCancel || j.Status != job.TuningValidating):
		return 0, w.askThere(ctx, tuner, client, j.Ask)
	}
	before := j.Status
	if err := w.poll(ctx, tuner, client); err != nil {
		return 0, err
	}
	if now := &w.job.Value; now.Outcome != nil || now.Ask != "" && now.Status != job.TuningValidating {
		return 0, nil
	}
	if w.job.Value.Status != before {
		w.pause = w.Soon
	}
	wait := w.pause
	w.pause = min(w.pause*3/2, w.Late)
	return wait, nil
}
