// Package bodies keeps the requests and answers that an operator wants kept. It collects them beside the exchange,
// redacts them in the background and sends them to the control plane, which stores them sealed.
//
// Nothing here may delay or fail a request. What has no room is dropped and counted. Nothing is written to disk, and
// nothing leaves the process before it is redacted, so that a rule must see a body as a whole: a body is cut after it
// was redacted, never before.
package bodies

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

const (
	// maxHeld bounds the bytes of all bodies that are collected or wait, and maxQueue the number of exchanges that wait.
	maxHeld  = 64 << 20
	maxQueue = 1024

	sendTimeout  = 10 * time.Second
	flushTimeout = 3 * time.Second
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 15 * time.Second
	// tellEvery is how often the log says that bodies were dropped.
	tellEvery = time.Minute
	// maxRules bounds the settings whose compiled rules are kept.
	maxRules = 256
)

// Reasons for which bodies are dropped. They are labels of a metric.
const (
	droppedMemory   = "memory"
	droppedQueue    = "queue"
	droppedRefused  = "refused"
	droppedShutdown = "shutdown"
)

var errPanic = errors.New("redacting a body panicked")

// A Keeper sends bodies to the control plane. It is safe for concurrent use.
type Keeper struct {
	client  ledgerv1.BodiesClient
	log     *zap.Logger
	queue   chan *Capture
	held    atomic.Int64
	kept    prometheus.Counter
	dropped *prometheus.CounterVec
	lost    atomic.Int64 // dropped since the log last said so

	rules map[*configv1.Bodies]*Rules // of run's goroutine
	told  time.Time                   // likewise
}

// New returns a keeper that collects. Run sends what it has collected.
func New(client ledgerv1.BodiesClient, r prometheus.Registerer, log *zap.Logger) *Keeper {
	k := &Keeper{
		client: client, log: log, queue: make(chan *Capture, maxQueue), rules: map[*configv1.Bodies]*Rules{},
		kept: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_bodies_kept_total",
			Help: "Exchanges whose bodies the control plane has stored."}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_bodies_dropped_total",
			Help: "Exchanges whose bodies were to be kept and are not, by reason."}, []string{"reason"}),
	}
	for _, reason := range []string{droppedMemory, droppedQueue, droppedRefused, droppedShutdown} {
		k.dropped.WithLabelValues(reason)
	}
	r.MustRegister(k.kept, k.dropped)
	return k
}

func (k *Keeper) drop(reason string) {
	k.dropped.WithLabelValues(reason).Inc()
	k.lost.Add(1)
}

// Run sends bodies until ctx ends, and then for a moment more.
func (k *Keeper) Run(ctx context.Context) {
	for {
		select {
		case c := <-k.queue:
			if ctx.Err() != nil {
				k.flush(ctx, c)
				return
			}
			k.send(ctx, c)
			k.tell(false)
		case <-ctx.Done():
			k.flush(ctx)
			return
		case <-time.After(tellEvery):
			k.tell(false)
		}
	}
}

// flush sends what waits when the process ends, and what was taken already.
func (k *Keeper) flush(ctx context.Context, taken ...*Capture) {
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	for _, c := range taken {
		k.send(rest, c)
	}
	for {
		select {
		case c := <-k.queue:
			k.send(rest, c)
		default:
			k.tell(true)
			return
		}
	}
}

// tell logs how many were dropped.
func (k *Keeper) tell(now bool) {
	if k.lost.Load() > 0 && (now || time.Since(k.told) >= tellEvery) {
		k.told = time.Now()
		k.log.Warn("bodies that were to be kept are not; modelgate_bodies_dropped_total says why",
			zap.Int64("exchanges", k.lost.Swap(0)))
	}
}

// send redacts the bodies of an exchange and sends them, repeatedly while the control plane is unavailable.
func (k *Keeper) send(ctx context.Context, c *Capture) {
	b, err := k.redacted(ctx, c)
	c.release()
	if err != nil { // a rule that validation refuses, or a panic
		k.drop(droppedRefused)
		return
	}
	for pause := firstBackoff; ; pause = min(2*pause, maxBackoff) {
		attempt, cancel := context.WithTimeout(ctx, sendTimeout)
		answer, err := k.client.Keep(attempt, &ledgerv1.KeepRequest{Bodies: b})
		cancel()
		switch code := status.Code(err); {
		case err == nil && answer.GetDropped() == "":
			k.kept.Inc()
			return
		case err == nil:
			k.drop(answer.GetDropped())
			return
		case ctx.Err() != nil:
			k.drop(droppedShutdown)
			return
		case code != codes.Unavailable && code != codes.DeadlineExceeded:
			k.drop(droppedRefused) // also by a control plane that does not know the call
			return
		}
		k.tell(false)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// redacted returns what may leave the process. A body over which it panics is not kept; requests go on.
func (k *Keeper) redacted(ctx context.Context, c *Capture) (_ *ledgerv1.KeptBodies, err error) {
	defer func() {
		if recover() != nil { // its reason may contain a part of the body
			err = errPanic
		}
	}()
	s := c.setting.Bodies
	rules := k.rules[s]
	if rules == nil {
		if rules, err = NewRules(s); err != nil {
			return nil, err
		}
		if len(k.rules) >= maxRules {
			clear(k.rules) // of settings that have changed
		}
		k.rules[s] = rules
	}
	c.answer.media = sniff(c.answer.text)
	if c.unseen && c.answer.omitted == "" {
		c.answer = part{omitted: omittedUnseen}
	}
	return &ledgerv1.KeptBodies{
		Id: c.owner.ID, Start: timestamppb.New(c.owner.Start), Key: c.owner.Key, Organization: c.owner.Organization,
		Project: c.owner.Project, Subject: c.setting.Subject, MaxTotalBytes: s.TotalBytes(),
		Retention: durationpb.New(s.KeptFor()),
		Request:   c.request.kept(ctx, rules, s.BodyBytes()), Answer: c.answer.kept(ctx, rules, s.BodyBytes()),
	}, nil
}
