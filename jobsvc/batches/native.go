package batches

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Native is the batch as a provider runs it by a batch API of its own. Between two looks at it the batch is put off
// in the queue, and costs nobody anything.
type Native struct {
	Provider string `json:"provider"`
	Model    string `json:"model"` // the provider's name
	// Since is when it was first tried to be submitted, as Unix time in seconds. 0: not yet.
	Since int64 `json:"since,omitempty"`
	// Remote is the provider's id of it, once that is known.
	Remote string `json:"remote,omitempty"`
	Polls  int    `json:"polls,omitempty"`
	// Completed and Failed are lines by the provider's count.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
	// StopAt is when the provider was asked to stop it, as Unix time in seconds.
	StopAt int64 `json:"stop_at,omitempty"`
	// Over says that the provider has nothing to do with it any more: what it left is asked line by line.
	Over bool `json:"over,omitempty"`
}

func (n *Native) active() bool { return n != nil && !n.Over }

// progress returns the counts, or the provider's where they say more.
func (n *Native) progress(c Counts) Counts {
	if n.active() && n.Completed+n.Failed > c.Completed+c.Failed && n.Completed+n.Failed <= c.Total {
		c.Completed, c.Failed = n.Completed, n.Failed
	}
	return c
}

// nativeFor returns how a batch whose lines all name a model begins at the provider's own batch API, or nil if it
// is run line by line.
func (w *work) nativeFor(ctx context.Context, model string) (*Native, error) {
	if model == "" {
		return nil, nil
	}
	c := w.s.Config()
	if c == nil {
		return nil, errors.New("there is no configuration yet")
	}
	p, upstream, ok := c.Target(model)
	if !ok || !p.Config.GetNativeBatches() || p.Vendor.Batches == nil {
		return nil, nil
	}
	limited, err := w.limited(ctx, model, p.Config.GetName())
	if err != nil || limited {
		return nil, err
	}
	return &Native{Provider: p.Config.GetName(), Model: upstream}, nil
}

// native does what the provider's batch asks for now, and puts the batch off, or leaves it closed or to be run line by
// line.
func (w *work) native(ctx context.Context) error {
	n := *w.rec.Value.Native
	var p *config.Provider
	if c := w.s.Config(); c != nil {
		p = c.Providers[n.Provider]
	}
	stop := !w.stopSince().IsZero()
	if p == nil || p.Vendor.Batches == nil {
		return w.withoutProvider(ctx, n, stop)
	}
	client := w.s.Gateway.Provider(p)
	if n.Remote == "" {
		if n.Since == 0 && stop {
			return w.leave(ctx, n)
		}
		return w.submit(ctx, n, p, client)
	}
	if stop && n.StopAt == 0 {
		if err := p.Vendor.Batches.Cancel(ctx, client, n.Remote); err != nil && !gone(err) && !w.givenUp() {
			return fmt.Errorf("cancel the provider's batch: %w", err)
		}
		n.StopAt = w.s.Now().Unix()
		n.Polls = 0
	}
	report, err := p.Vendor.Batches.Poll(ctx, client, n.Remote)
	if err != nil {
		if gone(err) || w.givenUp() {
			w.log.Warn("the provider does not say any more how its batch stands", zap.Error(err))
			return w.leave(ctx, n)
		}
		return fmt.Errorf("look at the provider's batch: %w", err)
	}
	n.Completed, n.Failed = report.Completed, report.Failed
	if !report.Over && !w.settled(n) {
		return w.putOff(ctx, n)
	}
	if report.Error != nil {
		w.log.Warn("the provider refused the batch; its lines are asked one by one", zap.Error(report.Error))
		return w.leave(ctx, n)
	}
	return w.collect(ctx, n, p, client)
}

// stopSince returns since when no more lines are to be run, or the zero time.
func (w *work) stopSince() time.Time {
	b := &w.rec.Value
	switch end := time.Unix(b.ExpiresAt, 0); {
	case b.Status == job.BatchCancelling:
		return time.Unix(b.CancellingAt, 0)
	case !w.s.Now().Before(end):
		return end
	}
	return time.Time{}
}

// givenUp reports whether the provider has had the time to stop the batch since it was to.
func (w *work) givenUp() bool {
	since := w.stopSince()
	return !since.IsZero() && !w.s.Now().Before(since.Add(w.s.Limits.Settle))
}

// settled reports whether the provider has had that time since it was asked.
func (w *work) settled(n Native) bool {
	return n.StopAt != 0 && !w.s.Now().Before(time.Unix(n.StopAt, 0).Add(w.s.Limits.Settle))
}

// gone reports whether an error says that the provider does not have the batch. A credential that does not hold, say,
// is no reason to ask anew what the provider may well be running.
func gone(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && (e.Status == http.StatusNotFound || e.Status == http.StatusGone)
}

// final reports whether an error is a provider's last word.
func final(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.Status < 400 || e.Status > 499 {
		return false
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return true
}

// withoutProvider waits for a provider that is not configured any more, as long as there is time.
func (w *work) withoutProvider(ctx context.Context, n Native, stop bool) error {
	if stop || n.Since == 0 {
		return w.leave(ctx, n)
	}
	w.log.Warn("the provider that runs the batch is not configured", zap.String("provider", n.Provider))
	return w.putOff(ctx, n)
}

// submit hands the batch to the provider.
func (w *work) submit(ctx context.Context, n Native, p *config.Provider, client *provider.Client) error {
	again := n.Since != 0
	if !again {
		n.Since = w.s.Now().Unix()
		if err := w.keep(ctx, n); err != nil {
			return err
		}
	}
	b := w.remote(p, n, again)
	id, err := p.Vendor.Batches.Submit(ctx, client, b)
	switch {
	case errors.Is(err, files.ErrMissing):
		return w.close(ctx, lost, inputGone)
	case final(err):
		w.log.Warn("the provider refused the batch; its lines are asked one by one", zap.Error(err))
		return w.leave(ctx, n)
	case err != nil && w.givenUp():
		w.log.Warn("whether the provider has the batch cannot be found out", zap.Error(err))
		return w.leave(ctx, n)
	case err != nil:
		return fmt.Errorf("submit the batch: %w", err)
	}
	n.Remote = id
	return w.putOff(ctx, n)
}

// keep writes what is known of the provider's batch.
func (w *work) keep(ctx context.Context, n Native) error {
	return w.change(ctx, func(b *Batch, _ *store.Txn) error {
		b.Native = &n
		return nil
	})
}

// leave ends the provider's part. The batch goes on by its state.
func (w *work) leave(ctx context.Context, n Native) error {
	n.Over = true
	return w.keep(ctx, n)
}

// putOff writes what is known, and has the batch taken up again after a pause.
func (w *work) putOff(ctx context.Context, n Native) error {
	d := w.s.Limits.Poll
	for range min(n.Polls, 10) {
		d = min(d*3/2, 30*w.s.Limits.Poll)
	}
	n.Polls++
	err := w.change(ctx, func(b *Batch, t *store.Txn) error {
		b.Native = &n
		due := w.s.Now().Add(d)
		if end := time.Unix(b.ExpiresAt, 0); n.StopAt == 0 && due.After(end) {
			due = end
		}
		if b.Status == job.BatchCancelling && n.StopAt == 0 {
			due = w.s.Now() // the cancel came while the provider was asked
		}
		item := itemOf(w.rec, due)
		t.Do(queue.Put(item))
		return nil
	})
	if err != nil {
		return err
	}
	return errPutOff
}

// remote returns the lines that are left, as a provider takes them.
func (w *work) remote(p *config.Provider, n Native, again bool) provider.Batch {
	b := &w.rec.Value
	in := w.input() // the record changes while a provider's answers are read
	return provider.Batch{
		ID: w.rec.ID, Again: again, Since: n.Since, Endpoint: b.Endpoint, Count: b.Counts.Total,
		Target:  w.s.Config().At(p, n.Model),
		Carrier: w.s.Config().Carriers.For(w.rec.Tenant.Organization, b.Key),
		Each: func(ctx context.Context, take func(int, []byte) error) error {
			return in.each(ctx, &set{}, func(line int, r request) error { return take(line, r.body) })
		},
	}
}

// collect makes the provider's answers durable, and ends its part.
func (w *work) collect(ctx context.Context, n Native, p *config.Provider, client *provider.Client) error {
	done, err := w.done(ctx)
	if errors.Is(err, errBroken) {
		return w.close(ctx, lost, answersGone)
	}
	if err != nil {
		return err
	}
	input, err := newRandom(ctx, w.input())
	if errors.Is(err, files.ErrMissing) {
		return w.close(ctx, lost, inputGone)
	}
	if err != nil {
		return err
	}
	defer input.close()
	b := w.remote(p, n, false)
	b.Request = func(ctx context.Context, line int) ([]byte, error) {
		r, err := input.request(ctx, line)
		return r.body, err
	}
	switch err := w.gather(ctx, p, client, n.Remote, b, input, done); {
	case err == nil:
	case ctx.Err() == nil && !errors.Is(err, errLost) && (gone(err) || w.givenUp()):
		w.log.Warn("the provider's answers cannot be read; lines without one are not waited for", zap.Error(err))
	default:
		return err
	}
	return w.leave(ctx, n)
}

// bounded reports whether what a provider says that a line has used is more than the model can do, and bounds it.
func bounded(u *openai.Usage, b *provider.Batch, line []byte) (doubtful bool) {
	var can *configv1.Capabilities
	if b.Endpoint == "/v1/chat/completions" { // other lines may have many inputs
		can = b.Target.Can()
	}
	return usage.Bound(u, can, gjson.GetBytes(line, "n").Int())
}

// gather gives the provider's answers to results. What came before an error is durable.
func (w *work) gather(ctx context.Context, p *config.Provider, client *provider.Client, remote string,
	b provider.Batch, input *random, done *set) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	open := newBudget(int64(w.s.Limits.Open))
	results := w.newResults(func(lines int) { open.put(int64(lines)) })
	results.pricing = newPricing(b.Target.Facts.GetPrice())
	var flushing sync.WaitGroup
	var flushErr error
	doubtful := 0 // lines
	flushing.Go(func() {
		if flushErr = results.flush(ctx); flushErr != nil {
			stop(flushErr)
		}
	})
	err := p.Vendor.Batches.Results(reading, client, remote, b, func(a provider.BatchAnswer) error {
		if a.Status == 0 || done.has(a.Line) {
			return reading.Err()
		}
		r, err := input.request(reading, a.Line)
		if err != nil {
			return err
		}
		if err := open.take(reading, 1); err != nil {
			return err
		}
		done.add(a.Line)
		got := answer{status: a.Status, requestID: a.RequestID, body: a.Body}
		got.normalise()
		if got.usage = (openai.Usage{}); got.completed() {
			got.usage = a.Usage
			if bounded(&got.usage, &b, r.body) {
				doubtful++
			}
		}
		results.add(a.Line, r.customID, &got)
		return nil
	})
	results.end()
	flushing.Wait()
	results.drop()
	if doubtful > 0 {
		w.log.Warn("the provider reported more tokens than the model can have, and they are bounded",
			zap.Int("lines", doubtful), zap.String("model", b.Target.Model))
	}
	if flushErr != nil {
		return flushErr
	}
	if err != nil {
		return fmt.Errorf("read the provider's answers: %w", err)
	}
	return nil
}
