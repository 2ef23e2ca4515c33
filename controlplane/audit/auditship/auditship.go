// Package auditship sends the audit log to where an operator keeps evidence: to each AuditSink every entry at least
// once, in the order of the chain. A sink that fails holds up neither the log nor other sinks.
//
// A sink has a position in etcd, which moves only after the sink has taken what is before it. Entries can reach the
// ledger later than entries after them: a gap in the chain is passed only once etcd says that nothing is on its way.
// One control plane of several delivers, the one that holds a lock in etcd.
package auditship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/leader"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	// followEvery is how often new entries are looked for.
	followEvery = 5 * time.Second
	timeout     = 10 * time.Second
)

// A Ledger is where the entries are.
type Ledger interface {
	// AuditAfter returns the first entries after an id, by ascending id.
	AuditAfter(ctx context.Context, id string, limit int) ([]adminapi.AuditEntry, error)
	// AuditEnds returns the entries of the chain with the lowest and the highest sequence, empty if there is none.
	AuditEnds(ctx context.Context) (oldest, newest adminapi.AuditEntry, err error)
}

// A Chain is what etcd knows of the log.
type Chain interface {
	// Pending reports whether entries of the chain up to a sequence may be on their way to the ledger.
	Pending(ctx context.Context, sequence int64) (bool, error)
	// HeadSequence returns the sequence of the newest entry; 0: there is none.
	HeadSequence(ctx context.Context) (int64, error)
}

// A Plane is the control plane.
type Plane interface {
	// State returns the configuration, and false while it is not known.
	State() (configstore.State, bool)
	// SinkCredential returns the credential of a sink in clear; a zero value if it has none.
	SinkCredential(*configv1.AuditSink) (secret.Value, error)
}

// Options configure a Service. Every field is required unless its comment says otherwise.
type Options struct {
	Etcd    *clientv3.Client
	Ledger  Ledger
	Chain   Chain
	Plane   Plane
	Allowed *allowed.List // has the files that may be written
	// Networks may be reached although they are not public, and without TLS. Optional.
	Networks []netip.Prefix
	Log      *zap.Logger
	// Interval is how often new entries are looked for. 0: 5 s.
	Interval time.Duration
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// A Service delivers the audit log. It is safe for concurrent use.
type Service struct {
	options  Options
	store    store
	sender   *sender
	pause    func(failed int, after time.Duration) time.Duration
	backlog  *prometheus.GaugeVec
	failures *prometheus.CounterVec
}

// New returns a service that does nothing before Run.
func New(o Options) (*Service, error) {
	o.Interval = cmp.Or(o.Interval, followEvery)
	if o.Now == nil {
		o.Now = time.Now
	}
	sender, err := newSender(o)
	if err != nil {
		return nil, err
	}
	return &Service{options: o, store: store{o.Etcd}, sender: sender, pause: pause,
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "modelgate_audit_sink_backlog",
			Help: "Audit log entries that are not delivered to the sink, as the control plane that delivers sees it."},
			[]string{"sink"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_audit_sink_failures_total",
			Help: "Failed attempts to deliver audit log entries to the sink."}, []string{"sink"}),
	}, nil
}

// Register registers the metrics, once.
func (s *Service) Register(r prometheus.Registerer) error {
	if err := errors.Join(r.Register(s.backlog), r.Register(s.failures)); err != nil {
		return fmt.Errorf("registering the metrics of audit sinks: %w", err)
	}
	return nil
}

// Run delivers until ctx ends, whenever this control plane holds the lock.
func (s *Service) Run(ctx context.Context) error {
	return leader.Task{Etcd: s.options.Etcd, Key: turn, What: "audit sinks", Log: s.options.Log, Do: s.deliver}.Run(ctx)
}

// deliver has a follower for each sink until ctx ends. One that finds that lead does not hold any more calls resign.
func (s *Service) deliver(ctx context.Context, lead clientv3.Cmp, resign func()) {
	defer s.backlog.Reset() // another control plane knows it now
	var running sync.WaitGroup
	defer running.Wait()
	busy, done := map[string]bool{}, make(chan string)
	ticker := time.NewTicker(s.options.Interval)
	defer ticker.Stop()
	for {
		state, ready := s.options.Plane.State()
		if ready {
			if err := s.store.tidy(ctx, lead, state); err != nil && ctx.Err() == nil {
				s.options.Log.Warn("positions of removed audit sinks are left in etcd", zap.Error(err))
			}
		}
		for _, sink := range configstore.All[*configv1.AuditSink](state) {
			name := sink.GetName()
			if busy[name] || sink.GetDisabled() {
				continue
			}
			busy[name] = true
			running.Go(func() {
				(&follower{Service: s, lead: lead, resign: resign, name: name}).run(ctx)
				select {
				case done <- name:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case name := <-done:
			delete(busy, name)
		case <-ticker.C:
		}
	}
}

// sink returns a sink that is to get entries, or nil.
func (s *Service) sink(name string) *configv1.AuditSink {
	state, _ := s.options.Plane.State()
	sink, _ := state.Objects[configv1.KindOf((*configv1.AuditSink)(nil)).Name][name].(*configv1.AuditSink)
	if sink.GetDisabled() {
		return nil
	}
	return sink
}
