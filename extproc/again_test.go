package extproc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/extproctest"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/test/cases"
)

// Events of providers.
const (
	againRole  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	againText  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":null}]}` + "\n\n"
	againEnd   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}` + "\n\ndata: [DONE]\n\n"
	againError = `data: {"error":{"message":"boom","type":"server_error","code":null}}` + "\n\n"
	againBegin = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}` + "\n\n"
	againLoad  = "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n"
)

// An againGateway has a model "m" with the targets first, second and third, and "twice" with first alone.
type againGateway struct {
	t       *testing.T
	url     string
	key     string
	server  *Server
	socket  string // of further attempts
	logs    *observer.ObservedLogs
	mu      sync.Mutex // guards the fields below
	answers map[string]http.HandlerFunc
	asked   []string
}

func startAgain(t *testing.T) *againGateway {
	g := &againGateway{t: t, key: auth.Generate().Reveal(), answers: map[string]http.HandlerFunc{}}
	nowhere := &cases.Vendor{Server: &httptest.Server{URL: "http://127.0.0.1:1"}}
	upstreams, c := map[string]string{}, testConfig(t, g.key, nowhere, nowhere)
	for name, vendor := range map[string]string{"first": "anthropic", "second": "openai", "third": "openai"} {
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			g.mu.Lock()
			g.asked = append(g.asked, name)
			answer := g.answers[name]
			g.mu.Unlock()
			answer(w, r)
		}))
		t.Cleanup(upstream.Close)
		upstreams[name] = upstream.URL
		p, err := routing.NewProvider(&configv1.ResolvedProvider{Name: name, Provider: &configv1.Provider{Name: name,
			Vendor: vendor, Endpoint: upstream.URL + "/v1"}, Credential: "credential-of-" + name}, all.Providers()[vendor])
		require.NoError(t, err)
		c.Providers[name] = p
	}
	target := func(name string, priority uint32) *configv1.Target {
		return &configv1.Target{Provider: name, Model: "m", Priority: priority}
	}
	c.Models["m"] = &configv1.Model{Name: "m", Targets: []*configv1.Target{target("first", 0), target("second", 1),
		target("third", 2)}}
	c.Models["twice"] = &configv1.Model{Name: "twice", Targets: []*configv1.Target{target("first", 0)}}
	c.Models["once"] = &configv1.Model{Name: "once", Retry: &configv1.Retry{MaxAttempts: 1},
		Targets: []*configv1.Target{target("first", 0), target("second", 1)}}
	core, logs := observer.New(zap.InfoLevel)
	g.logs, g.server = logs, newServer(t, c, zap.New(core))
	conn := serve(t, g.server)
	player := extproctest.New(conn, upstreams)
	path := strings.TrimPrefix(conn.Target(), "unix:")
	player.ListenAgain(t, path)
	g.socket = envoy.AgainSocket(path)
	gateway := httptest.NewServer(player)
	t.Cleanup(gateway.Close)
	g.url = gateway.URL
	return g
}

// sends answers with events, and then breaks the connection if that is wanted.
func sends(breaks bool, events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for _, e := range events {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
		if breaks {
			panic(http.ErrAbortHandler)
		}
	}
}

// ask sends a request and returns its answer, and who was asked.
func (g *againGateway) ask(model string, answers map[string]http.HandlerFunc) (status int, body string, asked []string,
	line map[string]any) {
	g.t.Helper()
	g.mu.Lock()
	g.answers, g.asked = answers, nil
	g.mu.Unlock()
	id := fmt.Sprint("r", g.logs.Len(), model)
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.url+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(g.t, err)
	r.Header = http.Header{"Authorization": {"Bearer " + g.key}, "Content-Type": {"application/json"},
		"X-Request-Id": {id}}
	response, err := http.DefaultClient.Do(r)
	require.NoError(g.t, err)
	defer func() { _ = response.Body.Close() }()
	b, _ := io.ReadAll(response.Body)
	require.Eventually(g.t, func() bool {
		for _, e := range g.logs.FilterMessage("request").All() {
			if e.ContextMap()["request_id"] == id {
				line = e.ContextMap()
			}
		}
		return line != nil
	}, 10*time.Second, time.Millisecond)
	g.mu.Lock()
	defer g.mu.Unlock()
	return response.StatusCode, string(b), g.asked, line
}

func TestAttemptsAfterAFailureUnderStatus200(t *testing.T) {
	g := startAgain(t)
	fails := sends(false, "event: error\n"+`data: {"type":"error","error":{"type":"api_error","message":"boom"}}`+"\n\n")
	well := sends(false, againRole, againText, againEnd)
	rest := func() { g.server.env.Cooldown, g.server.env.Suspects = routing.Cooldown{}, routing.Cooldown{} }

	for what, c := range map[string]struct {
		model   string
		answers map[string]http.HandlerFunc
		status  int
		says    string
		asked   []string
		outcome string
	}{
		"the next is asked": {"m", map[string]http.HandlerFunc{"first": fails, "second": well}, 200, "fine",
			[]string{"first", "second"}, "finished"},
		"one that breaks before its content is followed, too": {"m", map[string]http.HandlerFunc{"first": fails,
			"second": sends(true, againRole), "third": well}, 200, "fine", []string{"first", "second", "third"}, "finished"},
		"and one that fails by its status": {"m", map[string]http.HandlerFunc{"first": fails,
			"second": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusBadGateway) },
			"third":  well}, 200, "fine", []string{"first", "second", "third"}, "finished"},
		"and one that gives no answer": {"m", map[string]http.HandlerFunc{"first": fails,
			"second": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"third":  well}, 200, "fine", []string{"first", "second", "third"}, "finished"},
		"the last error is the client's": {"m", map[string]http.HandlerFunc{"first": fails, "second": failsBy(againError),
			"third": failsBy(`data: {"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}` + "\n\n")}, 429,
			"slow", []string{"first", "second", "third"}, "failed"},
		"the client's mistake is final": {"m", map[string]http.HandlerFunc{"first": fails,
			"second": failsBy(`data: {"error":{"message":"bad","type":"invalid_request_error","code":null}}` + "\n\n")},
			400, "bad", []string{"first", "second"}, "rejected"},
		"after content nobody else is asked": {"m", map[string]http.HandlerFunc{"first": fails,
			"second": sends(true, againRole, againText)}, 200, "fine", []string{"first", "second"},
			"truncated"},
		"one target is asked twice": {"twice", map[string]http.HandlerFunc{"first": fails}, 500, "boom",
			[]string{"first", "first"}, "failed"},
		"the model's attempts are kept to": {"once", map[string]http.HandlerFunc{"first": fails}, 500, "boom",
			[]string{"first"}, "failed"},
	} {
		t.Run(what, func(t *testing.T) {
			defer rest()
			status, body, asked, line := g.ask(c.model, c.answers)
			require.Equal(t, c.status, status, body)
			require.Contains(t, body, c.says)
			require.Equal(t, c.asked, asked)
			require.Equal(t, c.outcome, line["outcome"])
			require.EqualValues(t, len(c.asked), line["attempts"])
		})
	}
	t.Run("what failed attempts have used is charged", func(t *testing.T) {
		defer rest()
		_, body, _, line := g.ask("m", map[string]http.HandlerFunc{"first": sends(false, againBegin+againLoad),
			"second": well})
		require.Contains(t, body, "fine")
		require.EqualValues(t, 25, line["prompt_tokens"])
		require.EqualValues(t, 11, line["completion_tokens"])
	})
	t.Run("an overloaded provider is left alone", func(t *testing.T) {
		defer rest()
		g.ask("m", map[string]http.HandlerFunc{"first": sends(false, againLoad), "second": well})
		_, body, asked, _ := g.ask("m", map[string]http.HandlerFunc{"second": well})
		require.Contains(t, body, "fine")
		require.Equal(t, []string{"second"}, asked)
	})
	t.Run("a client that leaves ends the attempt", func(t *testing.T) { leavesAgain(t, g, fails) })
}

func failsBy(event string) http.HandlerFunc { return sends(false, event) }

// TestWithoutTheListenerTheErrorIsTheFirstOne holds it for an Envoy that has none, and for one that was killed.
func TestWithoutTheListenerTheErrorIsTheFirstOne(t *testing.T) {
	g := startAgain(t)
	fails := map[string]http.HandlerFunc{"first": failsBy(againBegin + "event: error\n" +
		`data: {"type":"error","error":{"type":"api_error","message":"boom"}}` + "\n\n")}
	for _, stale := range []bool{false, true} {
		if err := os.Remove(g.socket); stale {
			require.ErrorIs(t, err, os.ErrNotExist)
			require.NoError(t, os.WriteFile(g.socket, nil, 0o600))
		}
		status, body, asked, _ := g.ask("m", fails)
		require.Equal(t, http.StatusInternalServerError, status, body)
		require.Contains(t, body, "boom")
		require.Equal(t, []string{"first"}, asked)
	}
}

func leavesAgain(t *testing.T, g *againGateway, fails http.HandlerFunc) {
	begun, over := make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	g.answers = map[string]http.HandlerFunc{"first": fails, "second": func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(over)
	}}
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	r.Header = http.Header{"Authorization": {"Bearer " + g.key}, "Content-Type": {"application/json"}}
	go func() {
		<-begun
		cancel()
	}()
	_, err = http.DefaultClient.Do(r)
	require.ErrorIs(t, err, context.Canceled)
	<-over
}
