package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

const (
	minPause = 200 * time.Millisecond // before a failed item, or etcd, is tried again
	maxPause = 30 * time.Second
	// yield is for how long a replica leaves a new item to others, for each item that it works on already, up to maxYield.
	yield      = 20 * time.Millisecond
	maxYield   = 200 * time.Millisecond
	rpcTimeout = 5 * time.Second
)

// Options are what a Queue needs.
type Options struct {
	Etcd *clientv3.Client
	// Node names this replica in claims, for people who look.
	Node string
	// TTL is how long claims outlive a replica that does not answer any more, in whole seconds. 0: 10 s.
	TTL time.Duration
	Log *zap.Logger
}

// A Queue claims items for one replica.
type Queue struct{ Options }

// New returns a queue.
func New(o Options) *Queue {
	if o.TTL == 0 {
		o.TTL = 10 * time.Second
	}
	return &Queue{o}
}

// A Handler works on an item until it is done, which is when it has taken it out of the queue, or has replaced it by one
// that is due later. Its context ends when the claim may be lost and when the replica stops; it then returns soon. After an
// error the item is tried again after a pause.
type Handler func(ctx context.Context, c *Claim) error

// Work claims items of a kind and handles at most n of them at once, until ctx ends and all handlers have returned.
func (q *Queue) Work(ctx context.Context, kind string, n int, handle Handler) {
	pause := minPause
	for ctx.Err() == nil {
		began := time.Now()
		err := q.session(ctx, kind, n, handle)
		if ctx.Err() != nil {
			return
		}
		q.Log.Warn("no claims can be held; trying again", zap.String("kind", kind), zap.Duration("in", pause), zap.Error(err))
		if time.Since(began) > maxPause {
			pause = minPause
		}
		wait(ctx, pause)
		pause = min(2*pause, maxPause/4)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// errLost means that the lease has expired, or may have.
var errLost = errors.New("the lease was lost")

// session works under one lease until it is lost.
func (q *Queue) session(ctx context.Context, kind string, n int, handle Handler) error {
	grant, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	lease, err := q.Etcd.Grant(grant, int64(q.TTL/time.Second))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// The session's own context is not the caller's: its lease is kept until the handlers have returned.
	s, err := concurrency.NewSession(q.Etcd, concurrency.WithLease(lease.ID))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	held, stop := context.WithCancel(ctx)
	d := &dispatcher{
		queue: q, kind: kind, free: n, handle: handle, lease: lease.ID,
		items: map[string]*entry{}, ended: make(chan ending),
	}
	defer func() {
		stop()
		d.wait()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rpcTimeout)
		defer cancel()
		s.Orphan()
		_, _ = q.Etcd.Revoke(end, lease.ID) // where it fails, the lease runs out by itself
	}()
	return d.run(held, s.Done())
}

// A dispatcher decides which items are claimed when. It is used by one goroutine, which handlers tell of their ends.
type dispatcher struct {
	queue  *Queue
	kind   string
	lease  clientv3.LeaseID
	handle Handler
	free   int // handlers that may yet be started

	items    map[string]*entry // of the queue
	running  int
	handlers sync.WaitGroup
	ended    chan ending
}

// An entry is an item as this replica sees it.
type entry struct {
	item    Item
	claimed bool          // by this replica
	taken   bool          // by another, as far as is known
	after   time.Time     // not to be claimed before
	pause   time.Duration // after the next failure
}

type ending struct {
	claim *Claim
	err   error
}

func (d *dispatcher) run(ctx context.Context, lost <-chan struct{}) error {
	revision, err := d.load(ctx)
	if err != nil {
		return err
	}
	watching := clientv3.WithRequireLeader(ctx)
	items := d.queue.Etcd.Watch(watching, folder(itemsRoot, d.kind), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	claims := d.queue.Etcd.Watch(watching, folder(claimsRoot, d.kind), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return errLost
		case r, ok := <-items:
			if err := watchError(r, ok); err != nil {
				return err
			}
			d.itemsChanged(r.Events)
		case r, ok := <-claims:
			if err := watchError(r, ok); err != nil {
				return err
			}
			d.claimsChanged(r.Events)
		case e := <-d.ended:
			d.finish(ctx, e)
		case <-timer.C:
		}
		next, err := d.claimDue(ctx, time.Now())
		if err != nil {
			return err
		}
		timer.Reset(next)
	}
}

func watchError(r clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errors.New("the watch ended")
	}
	return r.Err()
}

// load reads the queue and returns the revision at which it was read.
func (d *dispatcher) load(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	r, err := d.queue.Etcd.Get(ctx, folder(itemsRoot, d.kind), clientv3.WithPrefix())
	if err != nil {
		return 0, fmt.Errorf("read the queue: %w", err)
	}
	for _, kv := range r.Kvs {
		d.put(kv.Value)
	}
	return r.Header.Revision, nil
}

func (d *dispatcher) put(value []byte) {
	i, err := parse(d.kind, value)
	if err != nil || i.ID == "" {
		d.queue.Log.Error("an item of the queue cannot be read", zap.String("kind", d.kind), zap.Error(err))
		return
	}
	e := d.items[i.ID]
	if e == nil {
		e = &entry{pause: minPause, after: time.Now().Add(min(time.Duration(d.running)*yield, maxYield))}
		d.items[i.ID] = e
	}
	e.item = i
}

func (d *dispatcher) itemsChanged(events []*clientv3.Event) {
	for _, event := range events {
		if event.Type == clientv3.EventTypePut {
			d.put(event.Kv.Value)
			continue
		}
		delete(d.items, idOf(itemsRoot, d.kind, event.Kv.Key))
	}
}

func (d *dispatcher) claimsChanged(events []*clientv3.Event) {
	for _, event := range events {
		if e := d.items[idOf(claimsRoot, d.kind, event.Kv.Key)]; e != nil && !e.claimed {
			e.taken = event.Type == clientv3.EventTypePut
		}
	}
}

// claimDue claims what can be claimed now, and returns how long it is until there may be more.
func (d *dispatcher) claimDue(ctx context.Context, now time.Time) (time.Duration, error) {
	next := time.Hour
	for _, e := range d.items {
		switch in := max(e.item.in(now), e.after.Sub(now)); {
		case e.claimed || e.taken || d.free == 0:
		case in > 0:
			next = min(next, in)
		default:
			if err := d.start(ctx, e); err != nil {
				return 0, err
			}
		}
	}
	return next, nil
}

func (d *dispatcher) start(ctx context.Context, e *entry) error {
	limited, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	c, err := claim(limited, d.queue.Etcd, d.lease, d.queue.Node, e.item)
	if err != nil {
		return err
	}
	if c == nil {
		e.taken = true // its claim, or the item, goes: the watch will tell
		return nil
	}
	if e.item = c.Item; !e.item.due(time.Now()) { // put off while the watch was late
		return release(limited, d.queue.Etcd, c)
	}
	e.claimed = true
	d.free--
	d.running++
	d.handlers.Go(func() {
		err := d.handle(ctx, c)
		d.ended <- ending{c, err}
	})
	return nil
}

// finish releases what a handler is done with. The watch may be late, so that an item that is gone is still among those to be
// claimed: claiming it then fails.
func (d *dispatcher) finish(ctx context.Context, end ending) {
	d.free++
	d.running--
	limited, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	if err := release(limited, d.queue.Etcd, end.claim); err != nil && ctx.Err() == nil {
		d.queue.Log.Warn("a claim was not released; it goes with the lease", zap.String("item", end.claim.ID), zap.Error(err))
	}
	e := d.items[end.claim.ID]
	if e == nil {
		return
	}
	e.claimed = false
	if end.err != nil {
		d.queue.Log.Warn("work failed; it will be tried again", zap.String("kind", d.kind), zap.String("item", end.claim.ID),
			zap.Duration("in", e.pause), zap.Error(end.err))
		e.after = time.Now().Add(e.pause)
		e.pause = min(2*e.pause, maxPause)
		return
	}
	e.after, e.pause = time.Now().Add(minPause), minPause
}

// wait waits for the handlers, whose context has ended, and releases what they held.
func (d *dispatcher) wait() {
	done := make(chan struct{})
	go func() { d.handlers.Wait(); close(done) }()
	for {
		select {
		case <-d.ended: // revoking the lease releases its claim
		case <-done:
			return
		}
	}
}
