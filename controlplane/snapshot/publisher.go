package snapshot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// An Update is a complete built configuration.
type Update struct {
	// Revision of the configuration in etcd. It becomes the version of every response.
	Revision int64
	// Objects are the objects with resources. A pointer that is the same as in the Update before means
	// the same object.
	Objects []*xds.Built
	// Keys are the keys that have changed since the previous Update, by name; nil is a deleted one. They are published at
	// once.
	Keys map[string]*configv1.Key
	// Errors of objects. If an object has an error and no resources, its published resources stay.
	Errors []xds.ObjectError
}

// Options of a Publisher.
type Options struct {
	// Logger is required.
	Logger *zap.Logger
	// Registerer registers the metrics. Required.
	Registerer prometheus.Registerer
	// Names are the required DNS names of clients' certificates, by role. A role without a name is open to every client
	// that the server accepts.
	Names map[string]string
	// Grace is how long a cluster stays in Envoy after the ext_proc service has stopped using it. 0: 30 s.
	Grace time.Duration
	// AckTimeout bounds the wait for Envoys to acknowledge clusters before the ext_proc service gets resources that name
	// them. 0: 1 s.
	AckTimeout time.Duration
}

// A Publisher publishes configuration to its connected clients. It is safe for concurrent use.
type Publisher struct {
	log        *zap.Logger
	metrics    *metrics
	names      map[string]string // required names in certificates, by role
	ackTimeout time.Duration
	cache      caches
	wake       chan struct{} // buffers one: Run has to check for changes
	first      chan struct{} // closed when the first configuration is published

	mu        sync.Mutex // guards the fields below
	state     *state
	clients   map[int64]*client
	next      *Update // the newest that is not applied yet
	dirty     bool    // the served resources have to be computed again
	published int64   // revision that was sent to every role
	shared    string  // digest of what was last given to Envoys of others; empty: there are none
	// closed and replaced when a client has answered or a revision was sent to all
	heard chan struct{}
}

// New returns a Publisher that serves nothing until the first Publish. It fails if the metrics are registered already.
func New(o Options) (*Publisher, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.AckTimeout == 0 {
		o.AckTimeout = time.Second
	}
	p := &Publisher{
		log:        o.Logger,
		metrics:    m,
		names:      o.Names,
		ackTimeout: o.AckTimeout,
		// The first argument orders responses by type, clusters before listeners. Over delta it holds nothing back.
		cache:   caches{cache.NewSnapshotCache(true, roleHash{}, nopLogger{}), newKeyCache()},
		wake:    make(chan struct{}, 1),
		first:   make(chan struct{}),
		state:   newState(o.Grace),
		clients: map[int64]*client{},
		heard:   make(chan struct{}),
	}
	if err := o.Registerer.Register(newStatusCollector(p)); err != nil {
		return nil, fmt.Errorf("registering the metrics of xDS: %w", err)
	}
	return p, nil
}

// Publish makes u the configuration to serve. It returns at once. Of several updates in a row only the last may be
// published, except for keys. It must not be called concurrently.
func (p *Publisher) Publish(u Update) {
	if err := p.cache.keys.update(u.Revision, u.Keys); err != nil {
		p.log.Error("keys could not be published", zap.Int64("revision", u.Revision), zap.Error(err))
	}
	u.Keys = nil
	p.mu.Lock()
	p.next = &u
	p.mu.Unlock()
	p.signal()
}

// Published returns a channel that is closed when the first configuration has been published. Before that the server
// must not start: a client would take an empty answer for an empty configuration.
func (p *Publisher) Published() <-chan struct{} { return p.first }

// Run publishes until ctx is done, and returns its error. It must be called once.
func (p *Publisher) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.publishAll(ctx)
		timer.Reset(p.untilDeparture())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// signal wakes Run.
func (p *Publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (p *Publisher) untilDeparture() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.state.nextDeparture(); ok {
		return max(time.Until(at), 0)
	}
	return time.Hour
}

// publishAll publishes until there is nothing left to publish.
func (p *Publisher) publishAll(ctx context.Context) {
	for p.take() && ctx.Err() == nil {
		p.publish(ctx)
	}
}

// take applies the newest update, and reports whether there is anything to publish.
func (p *Publisher) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.next; u != nil {
		p.next = nil
		if err := p.state.apply(*u); err != nil {
			p.log.Error("a configuration could not be published", zap.Int64("revision", u.Revision), zap.Error(err))
			return false
		}
		p.dirty = true
	}
	at, leaving := p.state.nextDeparture()
	return p.dirty || leaving && !time.Now().Before(at)
}

// publish sends new resources to Envoy before the ext_proc service can use them. Removals go to the ext_proc service
// first, and linger in Envoy.
func (p *Publisher) publish(ctx context.Context) {
	deadline := time.NewTimer(p.ackTimeout)
	defer deadline.Stop()
	for {
		p.set(ctx, envoy.RoleEnvoy)
		again, expired := p.awaitClusters(ctx, deadline.C)
		if expired {
			p.log.Warn("an Envoy has not acknowledged its clusters in time", zap.Duration("waited", p.ackTimeout))
		}
		if !again {
			break
		}
	}
	p.awaitShared(ctx)
	p.set(ctx, envoy.RoleExtProc)
	p.set(ctx, envoy.RoleJobs) // its requests go through Envoy and the ext_proc service, so it need not wait
	p.done()
}

// awaitClusters waits until every Envoy has answered for its clusters, or until the deadline. It returns again if a
// refusal has changed what to serve, and expired if the deadline passed.
func (p *Publisher) awaitClusters(ctx context.Context, deadline <-chan time.Time) (again, expired bool) {
	for {
		p.mu.Lock()
		again, ready := p.dirty, p.clustersSettled()
		p.mu.Unlock()
		if again || ready {
			return again, false
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-deadline:
			return false, true
		case <-p.wake:
		}
	}
}

// set sends the current resources to the clients of a role.
func (p *Publisher) set(ctx context.Context, role string) {
	p.mu.Lock()
	rs := p.state.serve(role, time.Now())
	if role == envoy.RoleEnvoy {
		p.dirty = false
	}
	p.mu.Unlock()
	if old, err := p.cache.GetSnapshot(role); err == nil && old == cache.ResourceSnapshot(rs) {
		return
	}
	// The lock is not held: the cache writes to the streams, which may wait for the lock.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := p.cache.SetSnapshot(ctx, role, rs); err != nil {
		p.log.Error("not every client could be sent the configuration", zap.String("role", role), zap.Error(err))
	}
	p.metrics.revision.WithLabelValues(role).Set(float64(rs.revision))
}

// done records that every role was sent the configuration.
func (p *Publisher) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hear()
	if p.published != p.state.revision {
		p.published = p.state.revision
		p.log.Debug("configuration published", zap.Int64("revision", p.published))
	}
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}
