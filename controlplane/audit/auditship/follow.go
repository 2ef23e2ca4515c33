package auditship

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	// before is how much earlier than now a sink with from_now begins, so that what is written meanwhile is in it.
	before = time.Minute
	// maxAfter bounds a receiver's retry-after.
	maxAfter = time.Hour
)

// pauses returns the pauses between attempts; the last one repeats.
func pauses() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute,
		2 * time.Minute, 5 * time.Minute}
}

// pause returns how long the next attempt waits after so many that have failed.
func pause(failed int, after time.Duration) time.Duration {
	return webhook.Pause(pauses(), failed, after, maxAfter)
}

// A follower delivers to one sink. One goroutine uses it.
type follower struct {
	*Service
	lead   clientv3.Cmp
	resign func()
	name   string

	at       position
	revision int64
	known    bool // at is etcd's revision, or ahead of it
	ahead    bool // at is to be stored
	// confirmed is a sequence up to which entries that are missing will not come.
	confirmed int64
	// halved is how often the bound of a batch was halved, because the sink finds it too large.
	halved int
}

// run delivers until ctx ends, or the sink is to get no more.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		sink := f.sink(f.name)
		if sink == nil {
			f.backlog.DeleteLabelValues(f.name)
			return
		}
		d := f.step(ctx, sink)
		f.measure(ctx)
		f.wait(ctx, sink, d)
	}
}

// wait waits, but no longer than until the sink has changed: it may have been corrected.
func (f *follower) wait(ctx context.Context, sink *configv1.AuditSink, d time.Duration) {
	if d <= 0 {
		return
	}
	timer, ticker := time.NewTimer(d), time.NewTicker(f.options.Interval)
	defer timer.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-ticker.C:
			if now := f.sink(f.name); now == nil || !proto.Equal(now, sink) {
				return
			}
		}
	}
}

// step delivers a batch if there is one, and returns how long to wait for the next.
func (f *follower) step(ctx context.Context, sink *configv1.AuditSink) time.Duration {
	if err := f.load(ctx, sink); err != nil {
		if errors.Is(err, errNotLeading) {
			f.resign()
		} else if ctx.Err() == nil {
			f.options.Log.Warn("an audit sink pauses", zap.String("sink", f.name), zap.Error(err))
		}
		return f.options.Interval
	}
	b, err := f.next(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		f.options.Log.Debug("the audit log cannot be read", zap.String("sink", f.name), zap.Error(err))
		return f.failed(ctx, result{says: "the audit log cannot be read from the ledger"})
	}
	if len(b.items) == 0 {
		if f.at.Error != "" && f.at.Failed > 0 {
			f.worked(ctx, f.at)
		}
		return f.options.Interval
	}
	got := f.sender.send(ctx, sink, b)
	switch {
	case ctx.Err() != nil:
		return 0 // who leads next tries again
	case got.tooLarge && len(b.items) > 1:
		f.halved++
		return f.failed(ctx, got)
	case got.says != "":
		return f.failed(ctx, got)
	}
	f.halved = max(0, f.halved-1)
	now := f.options.Now().UTC()
	b.after.At = &now
	f.worked(ctx, b.after)
	if b.more {
		return 0
	}
	return f.options.Interval
}

// load reads the position. It creates the position of a new sink.
func (f *follower) load(ctx context.Context, sink *configv1.AuditSink) error {
	if f.known {
		if f.ahead {
			f.save(ctx)
		}
		return nil
	}
	at, revision, err := f.store.position(ctx, f.lead, f.name)
	if err != nil {
		return err
	}
	f.revision = revision
	switch {
	case revision > 0:
		f.at = at
	case f.at != position{}: // etcd has lost it, and we have not
	case sink.GetFromNow():
		f.at.ID = firstID(f.options.Now().Add(-before))
	}
	f.known = true
	if revision == 0 {
		f.save(ctx)
	}
	return nil
}

// firstID returns an id that is before all those of a time.
func firstID(at time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(at)) // it fails in the year 10889
	return id.String()
}

// worked notes a position that is reached without an error.
func (f *follower) worked(ctx context.Context, at position) {
	if at.Failed > 0 {
		f.options.Log.Info("the audit sink works again", zap.String("sink", f.name), zap.Int("failed", at.Failed))
	}
	if missing := at.Missing - f.at.Missing; missing > 0 {
		f.options.Log.Error("entries of the audit log are missing from the ledger and were not delivered",
			zap.String("sink", f.name), zap.Int64("missing", missing), zap.Int64("before", at.Sequence))
	}
	at.Error, at.Since, at.Failed = "", nil, 0
	f.at = at
	f.save(ctx)
}

// failed notes an attempt that has failed, and returns the pause after it.
func (f *follower) failed(ctx context.Context, got result) time.Duration {
	f.failures.WithLabelValues(f.name).Inc()
	if f.at.Failed == 0 {
		now := f.options.Now().UTC()
		f.at.Since = &now
		f.options.Log.Warn("the audit sink fails; what it does not take waits", zap.String("sink", f.name),
			zap.String("error", got.says))
	}
	f.at.Failed++
	f.at.Error = got.says
	f.save(ctx)
	return f.pause(f.at.Failed, got.after)
}

// save stores the position. If that fails, such as in an etcd that is full, it is tried again at the next step: the
// position is not lost as long as this process leads.
func (f *follower) save(ctx context.Context) {
	revision, err := f.store.put(ctx, f.lead, f.name, f.at, f.revision)
	switch {
	case err == nil:
		f.revision, f.ahead = revision, false
	case errors.Is(err, errMoved):
		f.known, f.ahead = false, false
	default:
		f.ahead = true
		if ctx.Err() == nil {
			f.options.Log.Warn("the position of an audit sink is not stored", zap.String("sink", f.name), zap.Error(err))
		}
	}
}

// measure updates the backlog.
func (f *follower) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if head, err := f.options.Chain.HeadSequence(ctx); err == nil && f.known {
		if n, err := f.left(ctx, head, f.at); err == nil {
			f.Service.backlog.WithLabelValues(f.name).Set(float64(n))
		}
	}
}
