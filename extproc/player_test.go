package extproc

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/extproctest"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/test/cases"
)

// validKey has the form of a key and its checksum.
var validKey = auth.Generate().Reveal()

func TestCases(t *testing.T) {
	cases.Run(t, func(t *testing.T, a, b *cases.Vendor) *cases.Gateway {
		key := auth.Generate().Reveal()
		core, logs := observer.New(zap.InfoLevel)
		server := newServer(t, testConfig(t, key, a, b), zap.New(core))
		gateway := httptest.NewServer(extproctest.New(serve(t, server), map[string]string{"a": a.URL, "b": b.URL, "c": b.URL,
			"d": b.URL, "narrow": a.URL}))
		t.Cleanup(gateway.Close)
		newKey := func(_ testing.TB, k *configv1.Key) string {
			next, secret := *server.config.current.Load(), auth.Generate().Reveal()
			k.Name = fmt.Sprint("key_", next.Keyring.Len())
			next.Keyring = keyring(&next, map[string]string{k.GetName(): secret}, k)
			server.config.current.Store(&next)
			return secret
		}
		return &cases.Gateway{URL: gateway.URL, Key: key, Client: gateway.Client(), NewKey: newKey, NewRefusedKey: newKey,
			Logged: func(t testing.TB, requestID string) map[string]any {
				var line map[string]any
				require.Eventually(t, func() bool {
					for _, e := range logs.FilterMessage("request").All() {
						if e.ContextMap()["request_id"] == requestID {
							line = e.ContextMap()
						}
					}
					return line != nil
				}, 10*time.Second, time.Millisecond)
				return line
			}}
	})
}

// testConfig is the cases' configuration, as the control plane would have resolved it.
func testConfig(t *testing.T, key string, a, b *cases.Vendor) *exchange.Config {
	c := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper")),
			Organizations: map[string]*configv1.Organization{}, Projects: map[string]*configv1.Project{},
			RateLimits: map[string]*access.RateLimit{}},
		Table: routing.Table{Providers: map[string]*routing.Provider{}, Models: map[string]*configv1.Model{}},
	}
	c.Keyring = keyring(c, map[string]string{"key_test": key})
	routes := map[string]*configv1.Route{}
	for _, o := range cases.Config(a, b) {
		switch o := o.(type) {
		case *configv1.Provider:
			resolved, err := routing.NewProvider(&configv1.ResolvedProvider{Name: o.GetName(), Provider: o,
				Credential: o.GetCredential().GetValue()}, all.Providers()[o.GetVendor()])
			require.NoError(t, err)
			c.Providers[o.GetName()] = resolved
		case *configv1.Model:
			c.Models[o.GetName()] = o
		case *configv1.Route:
			routes[o.GetName()] = o
		case *configv1.Catalog:
			c.Catalog = catalog.New(o)
		case *configv1.Organization:
			c.Organizations[o.GetName()] = o
		case *configv1.Project:
			c.Projects[o.GetName()] = o
		case *configv1.RateLimit:
			l, err := access.NewRateLimit(&rlsv3.RateLimitConfig{Domain: o.GetDomain(), Descriptors: descriptorsOf(o)})
			require.NoError(t, err)
			c.RateLimits[o.GetName()] = l
		}
	}
	c.Routes = routing.NewRoutes(routes)
	return c
}

// descriptorsOf are the descriptors of a limit as the control plane sends them.
func descriptorsOf(l *configv1.RateLimit) []*rlsv3.RateLimitDescriptor {
	all := descriptors(l.GetDescriptors())
	if l.GetWhen() == "" {
		return all
	}
	return []*rlsv3.RateLimitDescriptor{{Key: configv1.WhenDescriptor, Value: l.GetWhen(), Descriptors: all}}
}

func descriptors(in []*configv1.RateLimitDescriptor) (out []*rlsv3.RateLimitDescriptor) {
	for _, d := range in {
		made := &rlsv3.RateLimitDescriptor{Key: d.GetKey(), Value: d.GetValue(), ShadowMode: d.GetShadowMode(),
			Descriptors: descriptors(d.GetDescriptors())}
		if p := d.GetRateLimit(); p != nil {
			made.RateLimit = &rlsv3.RateLimitPolicy{Unit: rlsv3.RateLimitUnit(p.GetUnit()),
				RequestsPerUnit: uint32(p.GetRequestsPerUnit())}
		}
		out = append(out, made)
	}
	return out
}

// keyring returns one of keys by name, over what each of more says.
func keyring(c *exchange.Config, secrets map[string]string, more ...*configv1.Key) *access.Keyring {
	keys := map[string]*configv1.Key{}
	for name := range secrets {
		keys[name] = &configv1.Key{Name: name}
	}
	for _, k := range more {
		keys[k.GetName()] = k
	}
	for name, k := range keys {
		hash := c.Hasher.Hash(secrets[name])
		k.Hash = hash[:]
	}
	return c.Keyring.With(keys)
}

// startServer serves the ext_proc service with a configuration of the test's own, and returns a connection to it.
func startServer(t *testing.T, config *exchange.Config) *grpc.ClientConn {
	return startServerWithLog(t, config, zap.NewNop())
}

func startServerWithLog(t *testing.T, config *exchange.Config, accessLog *zap.Logger) *grpc.ClientConn {
	return serve(t, newServer(t, config, accessLog))
}

func newServer(t *testing.T, config *exchange.Config, accessLog *zap.Logger) *Server {
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	nowhere, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	s := New(Options{XDS: nowhere, Vendors: all.Providers(), Logger: log, AccessLog: accessLog,
		Registerer: prometheus.NewRegistry()})
	s.config.current.Store(config)
	return s
}

// serve runs a server on a Unix socket until the test ends.
func serve(t *testing.T, s *Server) *grpc.ClientConn {
	dir, err := os.MkdirTemp("", "mg") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l, 10*time.Second) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
