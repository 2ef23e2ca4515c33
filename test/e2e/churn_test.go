package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// churnFor is how long the soak lasts.
var churnFor = time.Duration(testenv.Size(9, 60)) * time.Second

// TestChurn changes the configuration twenty times a second under load: no request fails, no connection is dropped,
// and memory stays where it is.
func TestChurn(t *testing.T) {
	g := startRun(t, t.TempDir(), "--grace", "5s")
	upstream := httptest.NewServer(fakeprovider.Handler())
	t.Cleanup(upstream.Close)
	api := adminapi.NewClient(g.Admin, g.File(t, "admin-token"), g.Client)
	_, err := api.Apply(t.Context(), churnObjects(upstream.URL, 0), false)
	require.NoError(t, err)
	harness.Eventually(t, "configuration in force", func() error { return g.has("steady/echo", "moving") })

	ctx, cancel := context.WithTimeout(t.Context(), churnFor)
	defer cancel()
	load := &load{gateway: g}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() { load.run(ctx, load.unary) })
		workers.Go(func() { load.run(ctx, load.stream) })
	}
	long := g.openStream(t, 1<<20) // open from the first change to the last
	changes, settled, peak := churn(ctx, t, g, api, upstream.URL)
	workers.Wait()
	require.NoError(t, drain(long))

	t.Logf("%d requests on %d connections, %d changes, resident memory %d MB after the first third and %d MB at the end",
		load.requests.Load(), load.connections.Load(), changes, settled>>20, peak>>20)
	require.Empty(t, load.failed(), "failed requests")
	require.LessOrEqual(t, load.connections.Load(), int64(16), "each worker keeps its connection")
	require.Greater(t, load.requests.Load(), int64(500))
	require.Greater(t, changes, int(churnFor/time.Second)*10)
	require.Less(t, float64(peak), float64(settled)*1.3+float64(32<<20), "memory is flat")
}

// churnObjects are providers, models and a key that are different at each change. "steady" is what half of the load
// asks; "moving" is a model whose provider changes under it.
func churnObjects(upstream string, n int) []configv1.Object {
	// A header changes what the ext_proc service does, a timeout the clusters of Envoy.
	provider := func(name string, n int) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: "openai", Endpoint: upstream,
			Headers:  map[string]string{"x-change": fmt.Sprint(n)},
			Timeouts: &configv1.Timeouts{Connect: durationpb.New(time.Duration(5+n%5) * time.Second)}}
	}
	return []configv1.Object{
		provider("steady", 0),
		provider("changing", n),
		provider(fmt.Sprintf("other-%d", n%3), n),
		&configv1.Model{Name: "moving", Targets: []*configv1.Target{{Provider: []string{"steady", "changing"}[n%2],
			Model: "echo", Weight: uint32(n%7 + 1)}}},
	}
}

// churn changes the configuration twenty times a second until ctx ends, and returns the number of changes and the
// resident memory of the gateway's processes after a third of the time and at the end.
func churn(ctx context.Context, t *testing.T, g *gateway, api *adminapi.Client, upstream string) (changes int, settled,
	peak int64) {
	t.Helper()
	var n atomic.Int64
	var changers sync.WaitGroup
	for range 2 { // one would wait for its answers
		changers.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if err := change(ctx, g, api, upstream, int(n.Add(1))); err != nil && ctx.Err() == nil {
					t.Errorf("change: %v", err)
				}
			}
		})
	}
	select {
	case <-time.After(churnFor / 3):
	case <-ctx.Done():
	}
	settled = memory(t, g.PID())
	changers.Wait()
	return int(n.Load()), settled, memory(t, g.PID())
}

// change makes the n-th change: of providers and models, of a key, or of the certificate.
func change(ctx context.Context, g *gateway, api *adminapi.Client, upstream string, n int) error {
	switch n % 5 {
	case 1:
		made, err := api.CreateKey(ctx, adminapi.KeyRequest{DisplayName: "churn"})
		if err != nil {
			return err
		}
		return api.Delete(ctx, configv1.KindOf(&configv1.Key{}), made.ID)
	case 2:
		pair, err := certs.Ensure(g.Dir, []string{"127.0.0.1", fmt.Sprintf("n%d.test", n)}, time.Now())
		if err != nil {
			return err
		}
		_, err = api.Apply(ctx, []configv1.Object{&configv1.Certificate{Name: "default", Chain: string(pair.Certificate),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}}}}, false)
		return err
	case 3:
		err := api.Delete(ctx, configv1.KindOf(&configv1.Provider{}), fmt.Sprintf("other-%d", n%3))
		if e, ok := errors.AsType[*openai.Error](err); ok && e.Status == http.StatusNotFound {
			return nil // it is there after some changes, and not after others
		}
		return err
	}
	_, err := api.Apply(ctx, churnObjects(upstream, n), false)
	return err
}

// A load is clients that ask again and again, each over a connection of its own.
type load struct {
	gateway     *gateway
	requests    atomic.Int64
	connections atomic.Int64

	mu       sync.Mutex // guards failures
	failures []string
}

func (l *load) failed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failures) < 20 {
		l.failures = append(l.failures, err.Error())
	}
}

// run asks until ctx ends. What was begun is finished.
func (l *load) run(ctx context.Context, ask func(*http.Client, int) error) {
	transport := l.gateway.Client.Transport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	dial := transport.DialContext
	transport.DialContext = countDials(&l.connections, dial)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for n := 0; ctx.Err() == nil; n++ {
		if err := ask(client, n); err != nil {
			l.fail(err)
		}
		l.requests.Add(1)
	}
}

func (l *load) unary(client *http.Client, n int) error {
	body, err := l.post(client, n, "")
	if err == nil && !strings.Contains(body, "hello there") {
		err = fmt.Errorf("unary: %s", body)
	}
	return err
}

func (l *load) stream(client *http.Client, n int) error {
	body, err := l.post(client, n, `"stream":true,`)
	if err == nil && !strings.HasSuffix(body, "data: [DONE]\n\n") {
		err = fmt.Errorf("stream: %s", body)
	}
	return err
}

func (l *load) post(client *http.Client, n int, member string) (string, error) {
	g := gateway{&harness.Gateway{URL: l.gateway.URL, Client: client}}
	model := []string{"steady/echo", "moving"}[n%2]
	status, body, err := g.post("/v1/chat/completions", l.gateway.Key, `{`+member+`"model":"`+model+
		`","messages":[{"role":"user","content":"hello there"}]}`)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", model, status, body)
	}
	return body, err
}
