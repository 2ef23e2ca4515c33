package extproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/again"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/checks"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/peers"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/turns"
	"github.com/modelgate/modelgate/internal/usage"
)

// Options are the dependencies of a Server.
type Options struct {
	// XDS is a connection to the control plane.
	XDS grpc.ClientConnInterface
	// NodeID names this process to the control plane.
	NodeID string
	// Vendors are the built-in providers, by name.
	Vendors map[string]provider.Provider
	Logger  *zap.Logger
	// AccessLog gets one line for each request.
	AccessLog  *zap.Logger
	Registerer prometheus.Registerer
	// Meter makes OpenTelemetry's metrics, and Tracer spans. Both may be nil.
	Meter  metric.Meter
	Tracer trace.Tracer

	// Limits decides about limits and budgets; nil is a limiter in memory. LimitsWait means that Limits uses the network.
	Limits     limit.Limiter
	LimitsWait bool
	// Spool stores the records for the ledger. Run ships them. The caller closes it after Run has returned. It may be
	// nil.
	Spool usage.Spool
	// Ledger is the control plane's ledger. If it is nil, records stay in the spool, and the spending of others is
	// unknown.
	Ledger ledgerv1.LedgerClient
	// Answers keeps the answers of response caches, for all processes; nil: each keeps its own in memory.
	Answers *respcache.Redis
	// Keeper stores bodies that are to be kept. If it is nil, none are kept.
	Keeper ledgerv1.BodiesClient
	// Peers are the other processes of a service that has several; nil: Envoy reaches this one alone. The caller closes
	// them after Run has returned.
	Peers *peers.Peers
	// Ending returns an error once the process has begun to end; it may be nil.
	Ending func() error

	// Bytes bounds the held bodies; it may be nil. Shedding reports whether new requests have to be refused because of
	// memory; it may be nil.
	Bytes *inflight.Bytes
	// Sessions bounds the open sessions of the Realtime API; it may be nil.
	Sessions *turns.Places
	Shedding func() bool
	// MaxHeld bounds the bytes of Envoy's messages that have not come whole, and of replies that Envoy does not take yet.
	// 0 is the transport's default.
	MaxHeld int
}

// A Server is Envoy's external processor and the receiver of its access log.
type Server struct {
	log      *zap.Logger
	env      exchange.Env
	config   *configClient
	journal  *journal
	refusals *prometheus.CounterVec
	spool    usage.Spool
	ledger   ledgerv1.LedgerClient
	began    time.Time // earlier usage in the ledger is from other processes
	// ledgerAsked is set once the ledger was asked for the spending of budgets and the usage of windows.
	ledgerAsked atomic.Bool
	drain       drain
	peers       *peers.Peers // or nil
	checks      *checks.Checks

	carriers  carrier.Carriers
	transport *transport.Server
}

// New returns a server that does not serve yet.
func New(o Options) *Server {
	process := peers.NewPrefix(o.Peers.Self())
	if o.Ending == nil {
		o.Ending = func() error { return nil }
	}
	if o.Limits == nil {
		o.Limits = limit.NewMemory(limit.Options{})
	}
	m := newMetrics(o.Registerer, o.Meter)
	s := &Server{
		log: o.Logger,
		env: exchange.Env{
			Now: time.Now, Random: mathrand.Uint32N, NewID: newIDs(process),
			Limits: o.Limits, Spool: o.Spool, Observer: m, Tracer: o.Tracer,
			Strangers: access.NewStrangers(refusalsPerSecond, refusalBurst), Names: access.NewNames(time.Now),
			Bytes: o.Bytes, Sessions: o.Sessions, Shedding: o.Shedding,
			Turns: turns.New(max(1, runtime.GOMAXPROCS(0)/2), maxTurnQueue),
		},
		config:   newConfigClient(o),
		journal:  newJournal(o.AccessLog, m, newSampler(o.Registerer), o.Spool, process),
		refusals: newRefusals(),
		spool:    o.Spool,
		ledger:   o.Ledger,
		began:    time.Now(),
		peers:    o.Peers,
	}
	s.checks = checks.New(checks.Options{Env: &s.env, Config: s.configuration, KeyHeaders: dialects.KeyHeaders(),
		Ready: func() error { return cmp.Or(s.Ready(), o.Ending()) }, Registerer: o.Registerer})
	s.journal.tried.apart = o.Peers != nil
	s.journal.refused = newRefusedRequests(o.Registerer, o.Spool, process)
	s.env.Tried = &s.journal.tried
	s.env.Current, s.env.Parts = s.configuration, s.journal.exchange
	if o.Keeper != nil {
		s.env.Bodies = bodies.New(o.Keeper, o.Registerer, o.Logger.Named("bodies"))
	}
	s.drain.over = make(chan struct{})
	if o.Ledger != nil {
		s.env.Ledger = o.Ledger
	}
	o.Registerer.MustRegister(newProviderCollector(s), newAnswerCollector(s), s.refusals, newBodyGauge(o.Bytes),
		newTurnGauge(s.env.Turns, "running"), newTurnGauge(s.env.Turns, "waiting"))
	s.carriers.Env, s.carriers.Config, s.carriers.LimitsWait = &s.env, s.configuration, o.LimitsWait
	s.carriers.Closed = s.journal.exchange
	s.transport = s.newTransport(o.MaxHeld)
	return s
}

// maxTurnQueue bounds how many requests of an organization wait for a turn with their guardrails.
const maxTurnQueue = 64

// Run serves on l and follows the configuration until ctx ends. Open streams may then continue for grace.
func (s *Server) Run(ctx context.Context, l net.Listener, grace time.Duration) error {
	if beside := again.Beside(l); beside != nil {
		s.carriers.Again, s.env.Again, s.journal.broke = beside, beside.Listens, s.suspect
	}
	var background sync.WaitGroup
	backgroundCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() { s.config.run(backgroundCtx) })
	background.Go(func() { s.journal.run(backgroundCtx) })
	background.Go(func() { s.journal.refused.run(backgroundCtx) })
	if s.ledgerAsked.Store(s.ledger == nil); s.ledger != nil {
		background.Go(func() { s.followSpent(backgroundCtx) })
	}
	var shipping sync.WaitGroup
	shippingCtx, stopShipping := context.WithCancel(context.WithoutCancel(ctx))
	if s.spool != nil && s.ledger != nil {
		shipping.Go(func() { s.spool.Run(shippingCtx, s.ledger) })
	}
	if s.env.Bodies != nil {
		shipping.Go(func() { s.env.Bodies.Run(shippingCtx) })
	}
	defer shipping.Wait()
	defer stopShipping() // after the journal has written its last records
	defer s.journal.refused.flush()
	defer background.Wait()
	defer stop()

	served := make(chan error, 1)
	go func() { served <- s.transport.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve ext_proc: %w", err)
	case <-ctx.Done():
	}
	background.Go(func() { s.drain.run(backgroundCtx, s.carriers.Len) })
	graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if s.peers != nil {
		select { // others ask for attempts of the exchanges that are open
		case <-s.drain.over:
		case <-graceCtx.Done():
		}
	}
	s.transport.Shutdown(graceCtx)
	s.drain.takers.Wait()
	s.carriers.Wait()
	if err := <-served; !errors.Is(err, transport.ErrStopped) && err != nil {
		return fmt.Errorf("serve ext_proc: %w", err)
	}
	return nil
}

// Ready returns the reason why requests cannot be served yet, or nil.
func (s *Server) Ready() error {
	if s.config.current.Load() == nil {
		return errors.New("no configuration from the control plane yet")
	}
	if !s.ledgerAsked.Load() {
		return errors.New("the ledger has not said yet what was spent of budgets and used of limits")
	}
	return nil
}

// Knows reports whether the current configuration admits requests with a key.
func (s *Server) Knows(key string) bool {
	c := s.config.current.Load()
	return c != nil && c.Keyring.ByHash(c.Hasher.Hash(key), time.Now()) != nil
}

// configuration returns the configuration for exchanges, or nil if there is none yet.
func (s *Server) configuration() *exchange.Config {
	if !s.ledgerAsked.Load() {
		return nil // the rest of the budgets is unknown: nobody can overspend after a restart
	}
	return s.config.current.Load()
}

// Trouble says which services do not answer that the configuration names and requests can do without; empty: none.
func (s *Server) Trouble() string {
	c := s.config.current.Load()
	if c == nil {
		return ""
	}
	return c.Caches.Trouble()
}

// newIDs returns a generator of ids of exchanges.
func newIDs(process string) func() string {
	var count atomic.Uint64
	return func() string { return process + strconv.FormatUint(count.Add(1), 36) }
}
