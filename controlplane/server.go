package controlplane

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/cloud"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/snapshot"
	"github.com/modelgate/modelgate/controlplane/standin"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/timing"
)

// Config configures a Server. Every field is required unless its comment says otherwise.
type Config struct {
	// Store is followed.
	Store *configstore.Store
	// XDS is where xDS is served: a Unix socket, or, with Credentials, anything. The Server closes it.
	XDS net.Listener
	// Credentials are the mutual TLS of xDS. Whoever connects is given the credentials of providers, so they may be nil
	// only where XDS cannot be reached from another machine.
	Credentials credentials.TransportCredentials
	// ClientNames are, by role of package envoy, the DNS name that the certificate of such a client must have. Without
	// one, each client that Credentials let in may have the role: a job service could ask for the credentials of
	// providers.
	ClientNames map[string]string
	// Root opens sealed credentials and gives the pepper of keys.
	Root *secret.Root
	// Providers are the vendors, by name.
	Providers map[string]provider.Provider
	// Allowed says which variables, files, secrets elsewhere and identities objects may name. Nil: none.
	Allowed *allowed.List
	// Vault reads secrets. Nil: there is no Vault.
	Vault *secretstore.Follower
	// SecretManagers reads secrets in those of clouds. Nil: there are none.
	SecretManagers *secretstore.Follower
	// Clouds has the process's identities. Nil: those that its environment gives it.
	Clouds *cloud.Clouds
	// SystemCA is the path, on Envoy's machine, of the PEM file with the authorities that providers are verified by.
	// Optional: without it every provider that is reached over TLS has to name its own.
	SystemCA   string
	Logger     *zap.Logger
	Registerer prometheus.Registerer
	// FileInterval is how often files that hold credentials are looked at. 0: 2 s.
	FileInterval time.Duration
	// Etcd is where replicas of the control plane tell each other who is connected to them. Nil: this is the only one.
	Etcd *clientv3.Client
	// Register adds other services to the server of xDS, such as the ledger. Optional.
	Register func(*grpc.Server)
}

// ErrNeedsTLS is returned by New and CheckXDS where other machines could ask for the credentials of providers.
var ErrNeedsTLS = errors.New("it can be reached from other machines and needs mutual TLS")

// A Server is the control plane of one process. It is safe for concurrent use.
type Server struct {
	config    Config
	resolver  *resolver
	exchanger *exchanger
	keySets   *keySets
	builder   *xds.Builder // of build
	settings  *settings    // of build
	publisher *snapshot.Publisher
	states    chan configstore.State
	keys      keyBook                           // of build
	last      atomic.Pointer[configstore.State] // that was read
	probes    probes
	refusals  refusals
	replica   string                            // key of this one in etcd
	chains    atomic.Pointer[map[string][]byte] // of the certificates that are served, by name
}

// CheckXDS returns an ErrNeedsTLS if other machines reach an address at which xDS would be served without
// credentials.
func CheckXDS(at net.Addr, c credentials.TransportCredentials) error {
	if c == nil && !local(at) {
		return fmt.Errorf("xDS at %s: %w", at, ErrNeedsTLS)
	}
	return nil
}

// New returns a Server that does nothing before Run.
func New(c Config) (*Server, error) {
	if err := CheckXDS(c.XDS.Addr(), c.Credentials); err != nil {
		return nil, err
	}
	if c.FileInterval == 0 {
		c.FileInterval = 2 * time.Second
	}
	p, err := snapshot.New(snapshot.Options{Logger: c.Logger, Registerer: c.Registerer, Names: c.ClientNames})
	if err != nil {
		return nil, err
	}
	e := newExchanger(time.Now, cmp.Or(c.Clouds, &cloud.Clouds{}))
	s := &Server{
		config:    c,
		resolver:  newResolver(c.Root.Sealer(), os.LookupEnv, c.Providers, c.Allowed, e, c.Vault, c.SecretManagers),
		exchanger: e,
		keySets:   newKeySets(e.changed),
		builder:   xds.NewBuilder(xds.Options{Providers: c.Providers, SystemCA: c.SystemCA}),
		settings:  newSettings(c.Root),
		publisher: p,
		replica:   configstore.Replicas + rand.Text(),
		states:    make(chan configstore.State),
		keys:      keyBook{published: map[string]*configv1.Key{}},
	}
	s.chains.Store(&map[string][]byte{})
	if err := s.registerMetrics(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) registerMetrics() error {
	for _, c := range []prometheus.Collector{
		certs.NewExpiry("config", func() map[string][]byte { return *s.chains.Load() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_config_followed",
			Help: "1 while this control plane hears of changes of the configuration in etcd; else the last one holds."},
			func() float64 {
				if s.config.Store.Following() {
					return 1
				}
				return 0
			}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "modelgate_vault_errors_total",
			Help: "Readings of secrets from Vault that failed."},
			func() float64 { return float64(s.config.Vault.Failures()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_vault_stale_secrets",
			Help: "Secrets from Vault that are in force though they could not be read again."},
			func() float64 { return float64(s.config.Vault.Stale()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "modelgate_secret_manager_errors_total",
			Help: "Readings of secrets from secret managers of clouds that failed."},
			func() float64 { return float64(s.config.SecretManagers.Failures()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_secret_manager_stale_secrets",
			Help: "Secrets from secret managers of clouds that are in force though they could not be read again."},
			func() float64 { return float64(s.config.SecretManagers.Stale()) }),
	} {
		if err := s.config.Registerer.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the control plane: %w", err)
		}
	}
	return nil
}

func local(a net.Addr) bool {
	switch a := a.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	default:
		return false
	}
}

// Ready returns why there is no configuration to serve yet, or nil. It does not depend on etcd being there: what was
// read once is served on.
func (s *Server) Ready() error {
	if !s.publisher.Status().Ready {
		return errors.New("no configuration has been read from etcd yet")
	}
	return nil
}

// Status returns what is published.
func (s *Server) Status() snapshot.Status { return s.publisher.Status() }

// Content returns what Envoys are sent, and a channel that is closed when it may have changed.
func (s *Server) Content() (snapshot.Content, <-chan struct{}) { return s.publisher.Content() }

// Shared records that Envoys of others were given content.
func (s *Server) Shared(digest string) { s.publisher.Shared(digest) }

// Admit returns an error if the certificate of who calls is not for a role.
func (s *Server) Admit(ctx context.Context, role string) error { return s.publisher.Admit(ctx, role) }

// Keys returns every key by name, as they were last read, and at which revision of the configuration. They must not be
// modified.
func (s *Server) Keys() (revision int64, keys map[string]configv1.Object) {
	if state := s.last.Load(); state != nil {
		return state.Revision, state.Objects[xds.KindKey]
	}
	return 0, nil
}

// Claim checks that the configuration in etcd was written under the root secret of this Server, and at the first time
// binds it to that. With another, every key of clients would be refused and no sealed credential could be opened.
func (s *Server) Claim(ctx context.Context) error {
	return s.config.Store.Claim(ctx, s.config.Root.Fingerprint())
}

// awaitClaim is Claim for the time when etcd may be unavailable.
func (s *Server) awaitClaim(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := s.Claim(attempt)
		cancel()
		if err == nil || errors.Is(err, configstore.ErrOtherRoot) || ctx.Err() != nil {
			return err
		}
		s.config.Logger.Warn("waiting for the configuration in etcd", zap.Error(err))
		_ = timing.Sleep(ctx, time.Second) // the next attempt heeds its end
	}
}

// Run follows the configuration and serves it until ctx is done, and returns nil then. It must be called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.awaitClaim(ctx); err != nil {
		closed := s.config.XDS.Close()
		if ctx.Err() == nil {
			return errors.Join(err, closed)
		}
		return closed
	}
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return s.publisher.Run(running) })
	g.Go(func() error {
		s.config.Store.Run(running, func(state configstore.State) {
			select {
			case s.states <- state:
			case <-running.Done():
			}
		})
		return running.Err()
	})
	g.Go(func() error {
		s.exchanger.run(running)
		return running.Err()
	})
	g.Go(func() error {
		s.keySets.run(running)
		return running.Err()
	})
	g.Go(func() error {
		s.config.Vault.Run(running)
		return running.Err()
	})
	g.Go(func() error {
		s.config.SecretManagers.Run(running)
		return running.Err()
	})
	if s.config.Etcd != nil {
		g.Go(func() error {
			s.tellReplicas(running)
			return running.Err()
		})
		g.Go(func() error {
			s.followRefused(running)
			return running.Err()
		})
	}
	g.Go(func() error { return s.follow(running) })
	g.Go(func() error { return s.serve(running) })
	if err := g.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// serve serves xDS as soon as there is something to serve.
func (s *Server) serve(ctx context.Context) error {
	select {
	case <-s.publisher.Published():
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.config.XDS.Close())
	}
	options := snapshot.ServerOptions()
	if s.config.Credentials != nil {
		options = append(options, grpc.Creds(s.config.Credentials))
	}
	server := grpc.NewServer(options...)
	s.publisher.Register(ctx, server)
	if s.config.Register != nil {
		s.config.Register(server)
	}
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	s.config.Logger.Info("serving xDS", zap.Stringer("address", s.config.XDS.Addr()))
	if err := server.Serve(s.config.XDS); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving xDS: %w", err)
	}
	return ctx.Err()
}

const (
	// firstReading is how long the first configuration waits for one attempt to read every outside secret and the
	// keys of every issuer: it replaces the data plane's configuration.
	firstReading = 15 * time.Second
	// laterReading is how long a later one waits for its new secrets and keys, so that an object does not have an
	// error first.
	laterReading = time.Second
)

// follow publishes the configuration whenever it has changed, a file that it names has, a secret elsewhere, a token,
// or the keys of an issuer.
func (s *Server) follow(ctx context.Context) error {
	ticker := time.NewTicker(s.config.FileInterval)
	defer ticker.Stop()
	var state configstore.State
	var reported map[xds.Object]string
	var late <-chan time.Time // when what is elsewhere is waited for no longer; nil while they are not
	patience := firstReading
	for known := false; ; {
		waited := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case state = <-s.states:
			known = true
			read := state // others read it while the variable changes
			s.last.Store(&read)
		case <-ticker.C:
			if !known || !s.resolver.filesChanged() {
				continue
			}
		case <-s.exchanger.changed:
		case <-s.config.Vault.Changed():
		case <-s.config.SecretManagers.Changed():
		case <-late:
			waited = true
		}
		if !known {
			continue
		}
		secrets, keys := s.resolver.secretsRead(state), s.keySets.settled(configstore.All[*configv1.TokenIssuer](state))
		if (!secrets || !keys) && !waited {
			if late == nil {
				late = time.After(patience)
			}
			continue
		}
		late, patience = nil, laterReading
		u := s.build(state)
		reported = s.report(u.Errors, reported)
		s.publisher.Publish(u)
	}
}

// build turns a configuration into what is published.
func (s *Server) build(state configstore.State) snapshot.Update {
	in, unresolved := s.resolver.resolve(state)
	issuers, unread := s.keySets.of(configstore.All[*configv1.TokenIssuer](state))
	checkers, away := resolveAll(s.resolver, state, revealed[*configv1.Checker])
	caches, closed := resolveAll(s.resolver, state, revealed[*configv1.ResponseCache])
	in.Settings, in.Responses = s.settings.of(in.JobServices, &configv1.Settings{Issuers: issuers,
		Guardrails:     configstore.All[*configv1.Guardrail](state),
		Policies:       append(standin.For(state.Invalid), configstore.All[*configv1.Policy](state)...),
		ResponseCaches: caches, Checkers: checkers,
		CertificateIssuers: in.CertificateIssuers})
	in.JobSecrets = s.settings.jobs
	chains := make(map[string][]byte, len(in.Certificates))
	for _, c := range in.Certificates {
		chains[c.GetName()] = []byte(c.GetChain())
	}
	s.chains.Store(&chains)
	objects, errs := s.builder.Build(in)
	errs = slices.Concat(errs, unresolved, unread, away, closed)
	keys, wrong := s.keys.changes(state)
	errs = append(errs, wrong...)
	for ref, err := range state.Errors {
		errs = append(errs, xds.ObjectError{Object: xds.Object{Kind: ref.Kind, Name: ref.Name}, Err: err})
	}
	return snapshot.Update{Revision: state.Revision, Objects: objects, Keys: keys, Errors: errs}
}

// report logs the errors that were not there before, and returns all of them. The store has logged its own.
func (s *Server) report(errs []xds.ObjectError, before map[xds.Object]string) map[xds.Object]string {
	now := make(map[xds.Object]string, len(errs))
	for _, e := range errs {
		now[e.Object] = e.Err.Error()
	}
	for o, message := range now {
		if before[o] != message {
			s.config.Logger.Warn("an object has an error", zap.String("object", o.String()), zap.String("error", message))
		}
	}
	return now
}
