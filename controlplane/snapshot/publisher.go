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

// An Update is a complete configuration, built.
type Update struct {
	// Revision of the configuration in etcd. It becomes the version of every response.
	Revision int64
	// Objects are what has resources. One that is the same pointer as in the Update before is the same.
	Objects []*xds.Built
	// Keys are those that have changed since the Update before, by name; nil is for one that is gone. They are published
	// at once, and wait for nothing.
	Keys map[string]*configv1.Key
	// Errors of objects. What was published before of an object that has an error and no resources stays.
	Errors []xds.ObjectError
}

// Options of a Publisher.
type Options struct {
	// Logger is required.
	Logger *zap.Logger
	// Registerer takes the metrics. Required.
	Registerer prometheus.Registerer
	// Names are, by role, the DNS name that the certificate of a client must have. Whoever the server lets in may have a
	// role that is not among them.
	Names map[string]string
	// Grace is how long a cluster stays in Envoy after the ext_proc service has stopped planning for it. 0: 30 s.
	Grace time.Duration
	// AckTimeout is how long the ext_proc service waits for Envoys to acknowledge clusters before it gets what names
	// them. 0: 1 s.
	AckTimeout time.Duration
}

// A Publisher publishes configuration to the clients that are connected to it. It is safe for concurrent use.
type Publisher struct {
	log        *zap.Logger
	metrics    *metrics
	names      map[string]string // of certificates, by role
	ackTimeout time.Duration
	cache      caches
	wake       chan struct{} // buffers one: something has changed that Run has to look at
	first      chan struct{} // closed when the first configuration is published

	mu        sync.Mutex // guards everything below
	state     *state
	clients   map[int64]*client
	next      *Update // the newest that is not applied yet
	dirty     bool    // what is served has to be decided anew
	published int64   // revision that every role has been given
	// closed, and another made, when a client has said something or all have been given a revision
	heard chan struct{}
}

// New returns a Publisher that serves nothing until the first Publish. It fails where the metrics are registered
// already.
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
		// The first argument orders responses by type, clusters before listeners; it withholds nothing over delta.
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

// Publish makes u what is served. It returns at once; of several updates in a row only the last may be published, but
// for keys. It must not be called twice at the same time.
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

// Published returns a channel that is closed when the first configuration has been published. Nothing may be served
// before: a client would take an empty answer for an empty configuration.
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

// signal has Run look again.
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

// publishAll publishes until nothing is left to do.
func (p *Publisher) publishAll(ctx context.Context) {
	for p.take() && ctx.Err() == nil {
		p.publish(ctx)
	}
}

// take applies the newest update, and reports whether anything has to be published.
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

// publish gives Envoy what is new before the ext_proc service can plan with it. What is gone leaves the ext_proc
// service first: in Envoy it lingers.
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
	p.set(ctx, envoy.RoleExtProc)
	p.set(ctx, envoy.RoleJobs) // what it asks goes through Envoy and the ext_proc service, and waits for nothing
	p.done()
}

// awaitClusters waits until every Envoy has answered for the clusters it is served, or until the deadline. It reports
// again where a refusal has changed what is to be served, and expired where the deadline passed.
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

// set gives the clients of a role what is to be served now.
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
	// The lock is not held: the cache writes to the streams, which may be waiting for it.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := p.cache.SetSnapshot(ctx, role, rs); err != nil {
		p.log.Error("not every client could be sent the configuration", zap.String("role", role), zap.Error(err))
	}
	p.metrics.revision.WithLabelValues(role).Set(float64(rs.revision))
}

// done records that every role has been given the configuration.
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
