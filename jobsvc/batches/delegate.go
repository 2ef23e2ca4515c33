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

// A delegate is the work on a batch that its provider runs by itself.
type delegate struct{ *work }

// advance does what the provider's batch asks for now, and puts the batch off, or leaves it closed or to be run line
// by line.
func (d delegate) advance(ctx context.Context) error {
	n := *d.rec.Value.Native
	var p *config.Provider
	if c := d.s.Config(); c != nil {
		p = c.Providers[n.Provider]
	}
	stop := !d.stopSince().IsZero()
	if p == nil || p.Vendor.Batches == nil {
		return d.withoutProvider(ctx, n, stop)
	}
	client := d.s.Gateway.Provider(p)
	if n.Remote == "" {
		if n.Since == 0 && stop {
			return d.leave(ctx, n)
		}
		return d.submit(ctx, n, p, client)
	}
	if stop && n.StopAt == 0 {
		if err := p.Vendor.Batches.Cancel(ctx, client, n.Remote); err != nil && !gone(err) && !d.givenUp() {
			return fmt.Errorf("cancel the provider's batch: %w", err)
		}
		n.StopAt = d.s.Now().Unix()
		n.Polls = 0
	}
	report, err := p.Vendor.Batches.Poll(ctx, client, n.Remote)
	if err != nil {
		if gone(err) || d.givenUp() {
			d.log.Warn("the provider does not say any more how its batch stands", zap.Error(err))
			return d.part(ctx, n, gone(err))
		}
		return fmt.Errorf("look at the provider's batch: %w", err)
	}
	n.Completed, n.Failed = report.Completed, report.Failed
	if !report.Over && !d.settled(n) {
		return d.putOff(ctx, n)
	}
	if report.Error != nil {
		d.log.Warn("the provider refused the batch; its lines are asked one by one", zap.Error(report.Error))
		return d.leave(ctx, n)
	}
	return d.collect(ctx, n, p, client, report.Over)
}

// stopSince returns since when no more lines are to be run, or the zero time.
func (d delegate) stopSince() time.Time {
	b := &d.rec.Value
	switch end := time.Unix(b.ExpiresAt, 0); {
	case b.Status == job.BatchCancelling:
		return time.Unix(b.CancellingAt, 0)
	case !d.s.Now().Before(end):
		return end
	}
	return time.Time{}
}

// givenUp reports whether the provider has had the time to stop the batch since it was to.
func (d delegate) givenUp() bool {
	since := d.stopSince()
	return !since.IsZero() && !d.s.Now().Before(since.Add(d.s.Limits.Settle))
}

// settled reports whether the provider has had that time since it was asked.
func (d delegate) settled(n Native) bool {
	return n.StopAt != 0 && !d.s.Now().Before(time.Unix(n.StopAt, 0).Add(d.s.Limits.Settle))
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
func (d delegate) withoutProvider(ctx context.Context, n Native, stop bool) error {
	if stop || n.Since == 0 {
		return d.leave(ctx, n)
	}
	d.log.Warn("the provider that runs the batch is not configured", zap.String("provider", n.Provider))
	return d.putOff(ctx, n)
}

// submit hands the batch to the provider.
func (d delegate) submit(ctx context.Context, n Native, p *config.Provider, client *provider.Client) error {
	again := n.Since != 0
	if !again {
		n.Since = d.s.Now().Unix()
		if err := d.keep(ctx, n); err != nil {
			return err
		}
	}
	b := d.remote(p, n, again)
	id, err := p.Vendor.Batches.Submit(ctx, client, b)
	switch {
	case errors.Is(err, files.ErrMissing):
		return d.close(ctx, lost, inputGone)
	case final(err):
		d.log.Warn("the provider refused the batch; its lines are asked one by one", zap.Error(err))
		return d.leave(ctx, n)
	case err != nil && d.givenUp():
		d.log.Warn("whether the provider has the batch cannot be found out", zap.Error(err))
		return d.leave(ctx, n)
	case err != nil:
		return fmt.Errorf("submit the batch: %w", err)
	}
	n.Remote = id
	return d.putOff(ctx, n)
}

// keep writes what is known of the provider's batch.
func (d delegate) keep(ctx context.Context, n Native) error {
	return d.change(ctx, func(b *Batch, _ *store.Txn) error {
		b.Native = &n
		return nil
	})
}

// leave ends the provider's part. The batch goes on by its state.
func (d delegate) leave(ctx context.Context, n Native) error {
	n.Over = true
	return d.keep(ctx, n)
}

// part ends the provider's part. Unless all is known of what it has run, that is charged later.
func (d delegate) part(ctx context.Context, n Native, known bool) error {
	if known {
		return d.leave(ctx, n)
	}
	return d.owe(ctx, n)
}

// putOff writes what is known, and has the batch taken up again after a pause.
func (d delegate) putOff(ctx context.Context, n Native) error {
	pause := d.s.Limits.Poll
	for range min(n.Polls, 10) {
		pause = min(pause*3/2, 30*d.s.Limits.Poll)
	}
	n.Polls++
	err := d.change(ctx, func(b *Batch, t *store.Txn) error {
		b.Native = &n
		due := d.s.Now().Add(pause)
		if end := time.Unix(b.ExpiresAt, 0); n.StopAt == 0 && due.After(end) {
			due = end
		}
		if b.Status == job.BatchCancelling && n.StopAt == 0 {
			due = d.s.Now() // the cancel came while the provider was asked
		}
		item := itemOf(d.rec, due)
		t.Do(queue.Put(item))
		return nil
	})
	if err != nil {
		return err
	}
	return errPutOff
}

// remote returns the lines that are left, as a provider takes them.
func (d delegate) remote(p *config.Provider, n Native, again bool) provider.Batch {
	b := &d.rec.Value
	in := d.input() // the record changes while a provider's answers are read
	return provider.Batch{
		ID: d.rec.ID, Again: again, Since: n.Since, Endpoint: b.Endpoint, Count: b.Counts.Total,
		Target:  d.s.Config().At(p, n.Model),
		Carrier: d.s.Config().Carriers.For(d.rec.Tenant.Organization, b.Key),
		Each: func(ctx context.Context, take func(int, []byte) error) error {
			return in.each(ctx, &set{}, func(line int, r request) error { return take(line, r.body) })
		},
	}
}

// collect makes the provider's answers durable, and ends its part. They are all if its batch is over.
func (d delegate) collect(ctx context.Context, n Native, p *config.Provider, client *provider.Client,
	over bool) error {
	done, err := d.done(ctx)
	if errors.Is(err, errBroken) {
		return d.close(ctx, lost, answersGone)
	}
	if err != nil {
		return err
	}
	input, err := newRandom(ctx, d.input())
	if errors.Is(err, files.ErrMissing) {
		return d.close(ctx, lost, inputGone)
	}
	if err != nil {
		return err
	}
	defer input.close()
	b := d.remote(p, n, false)
	b.Request = input.body
	switch err := d.gather(ctx, p, client, n.Remote, b, input, done); {
	case err == nil:
	case ctx.Err() == nil && !errors.Is(err, errLost) && (gone(err) || d.givenUp()):
		d.log.Warn("the provider's answers cannot be read; lines without one are not waited for", zap.Error(err))
		over = gone(err)
	default:
		return err
	}
	return d.part(ctx, n, over)
}

// answerOf returns the provider's answer to a line as one of the gateway's, and whether its usage was bounded.
func answerOf(a *provider.BatchAnswer, b *provider.Batch, line []byte) (got answer, doubtful bool) {
	got = answer{status: a.Status, requestID: a.RequestID, body: a.Body}
	got.normalise()
	if got.usage = (openai.Usage{}); got.completed() {
		got.usage = a.Usage
		doubtful = bounded(&got.usage, b, line)
	}
	return got, doubtful
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
func (d delegate) gather(ctx context.Context, p *config.Provider, client *provider.Client, remote string,
	b provider.Batch, input *random, done *set) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	open := newBudget(int64(d.s.Limits.Open))
	results := d.newResults(func(lines int) { open.put(int64(lines)) })
	results.pricing = d.pricing(p, &b)
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
		got, isDoubtful := answerOf(&a, &b, r.body)
		if isDoubtful {
			doubtful++
		}
		results.add(a.Line, r.customID, &got)
		return nil
	})
	results.end()
	flushing.Wait()
	results.drop()
	if doubtful > 0 {
		d.log.Warn("the provider reported more tokens than the model can have, and they are bounded",
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
