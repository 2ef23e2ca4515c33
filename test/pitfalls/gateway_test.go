package pitfalls

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc"
	"github.com/modelgate/modelgate/extproc/extproctest"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A gateway is a whole one, whose providers "openai", "claude" and "gemini" are played by one vendor. The model
// "first" is openai's and falls back to claude's.
type gateway struct {
	*cases.Gateway
	vendor *vendor
}

// A vendor answers for all providers.
type vendor struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	answer   http.HandlerFunc
	requests []string // paths
}

func newVendor(t *testing.T) *vendor {
	v := &vendor{}
	v.Server = cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body)) // for whom it concerns
		v.mu.Lock()
		v.requests = append(v.requests, r.URL.Path)
		answer := v.answer
		v.mu.Unlock()
		answer(w, r)
	})
	return v
}

// answers sets how the vendor answers from now on, and forgets what it was asked.
func (v *vendor) answers(h http.HandlerFunc) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer, v.requests = h, nil
}

// send has the vendor answer with a stream.
func (v *vendor) send(events ...string) {
	v.answers(func(w http.ResponseWriter, _ *http.Request) { write(w, events...) })
}

// write writes events of a stream at once.
func write(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if _, err := io.WriteString(w, e); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

// asked returns the paths that the vendor was asked.
func (v *vendor) asked() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests
}

func (v *vendor) config() []configv1.Object {
	secret := &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}
	target := func(provider, model string, priority uint32) *configv1.Target {
		return &configv1.Target{Provider: provider, Model: model, Priority: priority}
	}
	return []configv1.Object{
		&configv1.Provider{Name: "openai", Vendor: "openai", Endpoint: v.URL + "/openai", Credential: secret,
			Models: []string{"m"}},
		&configv1.Provider{Name: "claude", Vendor: "anthropic", Endpoint: v.URL + "/claude", Credential: secret},
		&configv1.Provider{Name: "gemini", Vendor: "gemini", Endpoint: v.URL + "/gemini", Credential: secret},
		&configv1.Model{Name: "first", Targets: []*configv1.Target{target("openai", "m", 0),
			target("claude", "claude-sonnet-4-5", 1)}},
	}
}

// overPlayer starts a gateway in this process, with Envoy's part played. Its key may use all models, unless some are
// named.
func overPlayer(t *testing.T, models ...string) gateway {
	v, key := newVendor(t), auth.Generate().Reveal()
	core, logs := observer.New(zap.InfoLevel)
	pepper := []byte("pepper")
	hash := auth.NewHasher(pepper).Hash(key)
	plane := &controlPlane{resources: []configv1.Object{
		&configv1.Settings{Name: "default", KeyPepper: pepper}, &configv1.Key{Name: "key_test", Hash: hash[:],
			Models: models},
	}}
	for _, o := range v.config() {
		if p, ok := o.(*configv1.Provider); ok {
			o = &configv1.ResolvedProvider{Name: p.GetName(), Provider: p, Credential: "credential"}
		}
		plane.resources = append(plane.resources, o)
	}
	xds := serve(t, func(l net.Listener) func() {
		s := grpc.NewServer()
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, plane)
		go func() { _ = s.Serve(l) }()
		return s.Stop
	})
	var service *extproc.Server
	processor := serve(t, func(l net.Listener) func() {
		service = extproc.New(extproc.Options{XDS: xds, NodeID: "test", Vendors: all.Providers(), Logger: zap.NewNop(),
			AccessLog: zap.New(core), Registerer: prometheus.NewRegistry()})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- service.Run(ctx, l, soon) }()
		return func() {
			stop()
			require.NoError(t, <-done)
		}
	})
	require.Eventually(t, func() bool { return service.Ready() == nil }, soon, poll)
	envoy := httptest.NewServer(extproctest.New(processor, map[string]string{"openai": v.URL, "claude": v.URL,
		"gemini": v.URL}))
	t.Cleanup(envoy.Close)
	return gateway{&cases.Gateway{URL: envoy.URL, Key: key, Client: envoy.Client(),
		Logged: func(t testing.TB, id string) map[string]any {
			var line map[string]any
			require.Eventually(t, func() bool {
				for _, e := range logs.FilterMessage("request").All() {
					if e.ContextMap()["request_id"] == id {
						line = e.ContextMap()
					}
				}
				return line != nil
			}, soon, poll)
			return line
		}}, v}
}

// serve has start serve on a socket until the test ends, and returns a connection to it.
func serve(t *testing.T, start func(net.Listener) (stop func())) *grpc.ClientConn {
	dir, err := os.MkdirTemp("", "mg") // t.TempDir is too long for a socket
	require.NoError(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	stop := start(l)
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		_ = os.RemoveAll(dir)
	})
	return conn
}

// A controlPlane serves one configuration, which never changes.
type controlPlane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	resources []configv1.Object
}

// DeltaAggregatedResources answers each subscription once.
func (c *controlPlane) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if r.GetResponseNonce() != "" {
			continue // an acknowledgement
		}
		out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.GetTypeUrl(), Nonce: "1"}
		for _, o := range c.resources {
			packed, err := anypb.New(o.(proto.Message))
			if err != nil {
				return err
			}
			if packed.GetTypeUrl() == r.GetTypeUrl() {
				out.Resources = append(out.Resources, &discoveryv3.Resource{Name: o.GetName(), Version: "1", Resource: packed})
			}
		}
		if err := s.Send(out); err != nil {
			return err
		}
	}
}

func TestMain(m *testing.M) { harness.MainWith(m, pgtest.Run) }

// overEnvoy starts the gateway with the real Envoy, or skips the test where there is none.
func overEnvoy(t *testing.T, flags ...string) gateway {
	v, dir := newVendor(t), t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(harness.Documents(t, v.config()...)), 0o600))
	g := harness.Run(t, filepath.Join(dir, "data"), append(flags, "--config", file)...)
	return gateway{g.AsCases(), v}
}

// poll is how often it is looked whether something has happened in another process.
const poll = 5 * time.Millisecond

// open asks for a stream and returns its body once its headers are there.
func (g gateway) open(ctx context.Context, t *testing.T, body string, headers ...string) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	return response.Body
}

// overBoth runs a test over the real Envoy and over the one that is played.
func overBoth(t *testing.T, test func(t *testing.T, g gateway)) {
	t.Run("played", func(t *testing.T) { test(t, overPlayer(t)) })
	t.Run("Envoy", func(t *testing.T) { test(t, overEnvoy(t)) })
}

// models are one of each provider of a gateway, with the dialect it answers in.
var models = map[string]dialect{"openai/m": openAI, "claude/claude-sonnet-4-5": messages,
	"gemini/gemini-3-pro-preview": google}

// ask is a request for a stream of a gateway's model.
func ask(model string) string {
	return `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"hi"}]}`
}

// clientCancels asks, cancels as soon as the vendor has done its part, and waits for the vendor's request to end.
func clientCancels(t *testing.T, g gateway, body string, part ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	did, gone := make(chan struct{}), make(chan struct{})
	g.vendor.answers(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		if len(part) > 0 {
			write(w, part...)
		}
		close(did)
		<-r.Context().Done()
	})
	if len(part) > 0 {
		_, err := bufio.NewReader(g.open(ctx, t, body, "X-Request-Id", "left")).ReadString('\n')
		require.NoError(t, err)
		cancel()
	} else {
		go func() {
			<-did
			cancel()
		}()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+g.Key)
		response, err := g.Client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	select {
	case <-gone:
	case <-time.After(soon):
		t.Fatal("the provider still works on it")
	}
}
