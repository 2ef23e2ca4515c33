package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	minPause = 200 * time.Millisecond // before a failed item, or etcd, is tried again
	maxPause = 30 * time.Second
	// yield is how long a replica leaves a new item to others, for each item that it works on, up to maxYield. A random
	// time up to yield is added, so that idle replicas do not all claim an item at the same moment.
	yield      = 20 * time.Millisecond
	maxYield   = 200 * time.Millisecond
	rpcTimeout = 5 * time.Second
	// askAgain is the time after which an item that was not ready is asked about again.
	askAgain = time.Second
)

// Options are the dependencies of a Queue.
type Options struct {
	Etcd *clientv3.Client
	// Node is the name of this replica in claims, for people.
	Node string
	// TTL is how long the claims of a dead replica remain, in whole seconds. 0: 10 s.
	TTL time.Duration
	Log *zap.Logger
	// Registerer registers the metrics; it may be nil.
	Registerer prometheus.Registerer
}

// A Queue claims items for one replica.
type Queue struct {
	Options
	metrics *metrics
}

// New returns a queue.
func New(o Options) *Queue {
	if o.TTL == 0 {
		o.TTL = 10 * time.Second
	}
	return &Queue{o, newMetrics(o.Registerer)}
}

// A Handler works on an item until it is done: then it has removed the item from the queue, or has replaced it by a
// later one. Its context ends if the claim may be lost or the replica stops, and it must return soon. After an error
// the item is tried again after a pause.
type Handler func(ctx context.Context, c *Claim) error

// Work claims items of a kind and handles at most n at the same time, until ctx ends and all handlers have returned.
func (q *Queue) Work(ctx context.Context, kind string, n int, handle Handler) {
	q.WorkReady(ctx, kind, n, func(Item) bool { return true }, handle)
}

// WorkReady is Work for items that may have to wait for something else than their time, such as a receiver that does
// not answer. It asks ready before it claims a due item, so that an item that waits costs etcd nothing. Ready must
// return at once.
func (q *Queue) WorkReady(ctx context.Context, kind string, n int, ready func(Item) bool, handle Handler) {
	pause := minPause
	for ctx.Err() == nil {
		began := time.Now()
		err := q.session(ctx, kind, n, ready, handle)
		if ctx.Err() != nil {
			return
		}
		q.Log.Warn("no claims can be held; trying again", zap.String("kind", kind), zap.Duration("in", pause),
			zap.Error(err))
		if time.Since(began) > maxPause {
			pause = minPause
		}
		_ = timing.Sleep(ctx, pause)
		pause = min(2*pause, maxPause/4)
	}
}

// enqueueAgain is the pause before WorkAlone puts its item into the queue again.
const enqueueAgain = 5 * time.Second

// WorkAlone runs the handler on one of all replicas until ctx ends. That replica holds the claim on an item, which
// WorkAlone puts into the queue and which never ends.
func (q *Queue) WorkAlone(ctx context.Context, st *store.Store, item Item, handle Handler) {
	for ctx.Err() == nil {
		t := st.Begin()
		t.Do(Put(item))
		err := t.Commit(ctx)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			q.Log.Warn("work of one replica cannot begin yet; trying again", zap.String("kind", item.Kind),
				zap.Duration("in", enqueueAgain), zap.Error(err))
		}
		_ = timing.Sleep(ctx, enqueueAgain)
	}
	q.Work(ctx, item.Kind, 1, handle)
}

// errLost means that the lease has expired or may have.
var errLost = errors.New("the lease was lost")

// session works under one lease until it is lost.
func (q *Queue) session(ctx context.Context, kind string, n int, ready func(Item) bool, handle Handler) error {
	grant, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	lease, err := q.Etcd.Grant(grant, int64(q.TTL/time.Second))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// The session does not use the caller's context, because its lease must live until the handlers have returned.
	s, err := concurrency.NewSession(q.Etcd, concurrency.WithLease(lease.ID))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	held, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		<-s.Done() // also at the end of the session
		stop(errLost)
	})
	d := &dispatcher{
		queue: q, kind: kind, free: n, ready: ready, handle: handle, lease: lease.ID,
		items: map[string]*entry{}, running: map[string]bool{}, changed: map[string]bool{}, ended: make(chan ending),
	}
	defer func() {
		stop(nil)
		d.wait()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rpcTimeout)
		defer cancel()
		s.Orphan()
		watch.Wait()
		_, _ = q.Etcd.Revoke(end, lease.ID) // if it fails, the lease expires by itself
	}()
	return d.run(held)
}

// A dispatcher decides when items are claimed. One goroutine uses it. Handlers report their ends to it.
type dispatcher struct {
	queue  *Queue
	kind   string
	lease  clientv3.LeaseID
	ready  func(Item) bool
	handle Handler
	free   int // number of handlers that may still be started

	items    map[string]*entry // of the queue
	running  map[string]bool   // items with a handler; an item that was removed and put again keeps its handler
	changed  map[string]bool   // items to check, because they have changed
	due      time.Time         // when all items are checked
	told     time.Time         // when the metrics were last set
	held     bool              // an item was not checked because no handler was free
	handlers sync.WaitGroup
	ended    chan ending
}

// An entry is this replica's view of an item.
type entry struct {
	item  Item
	taken bool          // by another replica, as far as known
	since time.Time     // when it was last seen free
	after time.Time     // earliest time for a claim
	late  time.Duration // delay after the item is due
	pause time.Duration // after the next failure
}

type ending struct {
	claim *Claim
	err   error
}

// run follows the queue until ctx ends, and returns the reason. A failure of etcd does not affect claimed items: only
// the lease decides whether they are held.
func (d *dispatcher) run(ctx context.Context) error {
	pause := minPause
	for {
		began := time.Now()
		err := d.follow(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		d.queue.Log.Warn("the queue cannot be followed, and nothing new is claimed; trying again",
			zap.String("kind", d.kind), zap.Duration("in", pause), zap.Error(err))
		_ = timing.Sleep(ctx, pause)
		pause = min(2*pause, maxPause/4)
	}
}

// follow reads the queue, and claims items as it changes.
func (d *dispatcher) follow(ctx context.Context) error {
	revision, err := d.load(ctx)
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	items := d.queue.Etcd.Watch(watching, folder(itemsRoot, d.kind), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	claims := d.queue.Etcd.Watch(watching, folder(claimsRoot, d.kind), clientv3.WithPrefix(),
		clientv3.WithRev(revision+1))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
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
		d.updateMetrics(time.Now())
		timer.Reset(min(next, metricsInterval))
	}
}

func watchError(r clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errors.New("the watch ended")
	}
	return r.Err()
}

// load reads the queue and returns the revision of the read.
func (d *dispatcher) load(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	r, err := d.queue.Etcd.Get(ctx, folder(itemsRoot, d.kind), clientv3.WithPrefix())
	if err != nil {
		return 0, fmt.Errorf("read the queue: %w", err)
	}
	before := d.items
	d.items, d.due = make(map[string]*entry, len(r.Kvs)), time.Time{}
	for _, kv := range r.Kvs {
		id := idOf(itemsRoot, d.kind, kv.Key)
		if e := before[id]; e != nil {
			e.taken = false // the end of a claim may have been missed
			d.items[id] = e
		}
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
		e = &entry{pause: minPause, late: rand.N(yield), since: time.Now()}
		e.after = e.since.Add(e.late + min(time.Duration(len(d.running))*yield, maxYield))
		d.items[i.ID] = e
	}
	e.item = i
	d.changed[i.ID] = true
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
		id := idOf(claimsRoot, d.kind, event.Kv.Key)
		if e := d.items[id]; e != nil {
			d.changed[id] = true
			e.since = time.Now()
			e.taken = event.Type == clientv3.EventTypePut && event.Kv.Lease != int64(d.lease)
		}
	}
}

// claimDue claims due items, and returns the time until more may be due.
func (d *dispatcher) claimDue(ctx context.Context, now time.Time) (time.Duration, error) {
	if !now.Before(d.due) || d.held && d.free > 0 {
		d.due, d.held = now.Add(time.Hour), false
		for id := range d.items {
			d.changed[id] = true
		}
	}
	for id := range d.changed {
		e := d.items[id]
		if e == nil || e.taken || d.running[id] {
			continue
		}
		if d.free == 0 {
			d.held = true
			break
		}
		if at := e.when(); now.Before(at) {
			d.due = earlier(d.due, at)
			continue
		}
		if !d.ready(e.item) {
			d.due = earlier(d.due, now.Add(askAgain))
			continue
		}
		if err := d.start(ctx, e); err != nil {
			return 0, err
		}
	}
	clear(d.changed)
	return d.due.Sub(now), nil
}

// when returns the earliest time for a claim.
func (e *entry) when() time.Time {
	at := e.after
	if due := time.Unix(e.item.NotBefore, 0).Add(e.late); due.After(at) {
		at = due
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (d *dispatcher) start(ctx context.Context, e *entry) error {
	limited, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	c, left, err := claim(limited, d.queue.Etcd, d.lease, d.queue.Node, e.item)
	if left != nil {
		// A claim, or a release, without an answer. It is not used, because each handler needs its own epoch.
		if err = release(limited, d.queue.Etcd, left); err == nil {
			c, _, err = claim(limited, d.queue.Etcd, d.lease, d.queue.Node, e.item)
		}
	}
	if err != nil {
		return err
	}
	if c == nil {
		e.taken = true // the watch will report the end of the claim or the item
		return nil
	}
	if e.item = c.Item; !e.item.due(time.Now()) { // put off while the watch was late
		d.due = earlier(d.due, e.when())
		return release(limited, d.queue.Etcd, c)
	}
	d.free--
	d.running[c.ID] = true
	d.handlers.Go(func() {
		err := d.handle(ctx, c)
		d.ended <- ending{c, err}
	})
	return nil
}

// finish releases the claim of a handler that has ended. The watch may be late, and the ended item may still be in the
// list: claiming it then fails.
func (d *dispatcher) finish(ctx context.Context, end ending) {
	d.free++
	delete(d.running, end.claim.ID)
	limited, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	if err := release(limited, d.queue.Etcd, end.claim); err != nil && ctx.Err() == nil {
		d.queue.Log.Warn("a claim was not released; it goes before the next one, or with the lease",
			zap.String("item", end.claim.ID), zap.Error(err))
	}
	e := d.items[end.claim.ID]
	if e == nil {
		return
	}
	d.changed[end.claim.ID] = true
	e.since = time.Now()
	if end.err != nil {
		d.queue.metrics.failures.WithLabelValues(d.kind).Inc()
		d.queue.Log.Warn("work failed; it will be tried again", zap.String("kind", d.kind), zap.String("item", end.claim.ID),
			zap.Duration("in", e.pause), zap.Error(end.err))
		e.after = time.Now().Add(e.pause)
		e.pause = min(2*e.pause, maxPause)
		return
	}
	e.after, e.pause = time.Now().Add(minPause), minPause
}

// wait waits for the handlers, whose context has ended, and releases their claims.
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
