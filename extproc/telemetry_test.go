package extproc

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/extproctest"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/telemetry/otlptest"
)

// measured is a gateway whose telemetry is looked at. Its providers are "plain" and "traced", which gets the context
// of traces; both speak OpenAI's dialect. The model "first" is plain's and falls back to traced; "second" is the other
// way round.
type measured struct {
	t         *testing.T
	url, key  string
	internal  string // of the job service's listener
	telemetry *telemetry.Telemetry
	collector *otlptest.Collector
	logs      *observer.ObservedLogs

	mu     sync.Mutex // guards what follows
	asked  []http.Header
	answer http.HandlerFunc
}

func newMeasured(t *testing.T, exported bool) *measured {
	m := &measured{t: t}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		m.mu.Lock()
		m.asked = append(m.asked, r.Header.Clone())
		answer := m.answer
		m.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(upstream.Close)
	if exported {
		m.collector = otlptest.Start(t)
		m.collector.Use(t)
	}
	var err error
	m.telemetry, err = telemetry.Start(t.Context(), telemetry.Options{Service: "modelgate-extproc", Log: zap.NewNop()})
	require.NoError(t, err)
	m.key = auth.Generate().Reveal()
	player := extproctest.New(m.serve(upstream.URL), map[string]string{"plain": upstream.URL, "traced": upstream.URL,
		envoy.ClusterJobs: upstream.URL})
	edge, internal := httptest.NewServer(player), httptest.NewServer(player.Internal())
	t.Cleanup(edge.Close)
	t.Cleanup(internal.Close)
	m.url, m.internal = edge.URL, internal.URL
	return m
}

func (m *measured) serve(upstream string) *grpc.ClientConn {
	config := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{}, Models: map[string]*configv1.Model{}},
	}
	for _, name := range []string{"plain", "traced"} {
		p := &configv1.Provider{Name: name, Vendor: "openai", Endpoint: upstream + "/" + name,
			TraceContext: name == "traced"}
		var err error
		config.Providers[name], err = routing.NewProvider(&configv1.ResolvedProvider{Name: name, Credential: "credential",
			Provider: p}, all.Providers()["openai"])
		require.NoError(m.t, err)
	}
	for name, order := range map[string][]string{"first": {"plain", "traced"}, "second": {"traced", "plain"}} {
		config.Models[name] = &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: order[0], Model: "up"},
			{Provider: order[1], Model: "up", Priority: 1}}}
	}
	config.Routes = routing.NewRoutes(map[string]*configv1.Route{"t": {PathPrefix: "/traced", Provider: "traced"},
		"p": {PathPrefix: "/plain", Provider: "plain"}})
	config.Keyring = keyring(config, map[string]string{"key_a": m.key}, &configv1.Key{Name: "key_a", Organization: "org",
		Project: "proj"})
	core, logs := observer.New(zap.InfoLevel)
	m.logs = logs
	nowhere, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(m.t, err)
	s := New(Options{XDS: nowhere, Vendors: all.Providers(), Logger: zap.NewNop(), AccessLog: zap.New(core),
		Registerer: m.telemetry.Registry, Meter: m.telemetry.Meter(), Tracer: m.telemetry.Tracer()})
	s.config.current.Store(config)
	return serve(m.t, s)
}

// ask sends a request to the gateway, whose provider answers so from now on, and returns what the provider was asked
// with.
func (m *measured) ask(base, path, body string, answer http.HandlerFunc, headers ...string) []http.Header {
	m.mu.Lock()
	m.asked, m.answer = nil, answer
	m.mu.Unlock()
	before := m.logs.FilterMessage("request").Len()
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, base+path, strings.NewReader(body))
	require.NoError(m.t, err)
	r.Header.Set("Authorization", "Bearer "+m.key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if resp, err := http.DefaultClient.Do(r); err == nil { // some are cut
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(m.t, resp.Body.Close())
	}
	require.Eventually(m.t, func() bool { return m.logs.FilterMessage("request").Len() > before }, 10*time.Second,
		time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// line is the last line of the access log.
func (m *measured) line() map[string]any {
	all := m.logs.FilterMessage("request").All()
	return all[len(all)-1].ContextMap()
}

// spans returns what was exported. Nothing is after that.
func (m *measured) spans() []*tracev1.Span {
	require.NoError(m.t, m.telemetry.Stop(context.Background()))
	return m.collector.Spans()
}

const (
	unary     = `{"id":"c","object":"chat.completion","created":1,"model":"up-2025","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	event     = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up-2025\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n"
	lastEvent = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up-2025\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up-2025\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n" +
		"data: [DONE]\n\n"
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentSpan  = "00f067aa0ba902b7"
	parent      = "00-" + parentTrace + "-" + parentSpan + "-01"
)

func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, unary)
}

func events(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, strings.Repeat(event, 3)+lastEvent)
}

// refusedBy has a provider refuse, and the other answer.
func refusedBy(name string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/"+name) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"no","type":"server_error","code":"some_code"}}`)
			return
		}
		document(w, r)
	}
}

func hi(model, more string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

const chats = "/v1/chat/completions"

func TestSpanOfAStream(t *testing.T) {
	m := newMeasured(t, true)
	m.ask(m.url, chats, hi("first", `,"stream":true,"stream_options":{"include_usage":true}`), events, "traceparent",
		parent, "tracestate", "vendor=x")
	line := m.line()
	spans := m.spans()
	require.Len(t, spans, 1)
	span := spans[0]
	require.Equal(t, "chat first", span.GetName())
	require.Equal(t, tracev1.Span_SPAN_KIND_CLIENT, span.GetKind())
	require.Equal(t, parentTrace, hexOf(span.GetTraceId()))
	require.Equal(t, parentSpan, hexOf(span.GetParentSpanId()))
	require.Equal(t, "vendor=x", span.GetTraceState())
	require.Equal(t, tracev1.Status_STATUS_CODE_UNSET, span.GetStatus().GetCode())
	require.Equal(t, parentTrace, line["trace_id"])
	require.Equal(t, hexOf(span.GetSpanId()), line["span_id"])
	took := time.Duration(span.GetEndTimeUnixNano() - span.GetStartTimeUnixNano())
	require.InDelta(t, line["total"], took, float64(100*time.Millisecond),
		"the record's own times; only one of the two clocks is monotonic")
	attributes := otlptest.Attributes(span.GetAttributes())
	require.Positive(t, attributes["gen_ai.response.time_to_first_chunk"])
	delete(attributes, "gen_ai.response.time_to_first_chunk")
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "first",
		"gen_ai.request.stream":     true,
		"gen_ai.usage.input_tokens": int64(3), "gen_ai.usage.output_tokens": int64(2),
		"gen_ai.usage.cache_read.input_tokens":     int64(0),
		"gen_ai.usage.cache_creation.input_tokens": int64(0), "gen_ai.usage.reasoning.output_tokens": int64(0),
		"http.response.status_code": int64(200), "modelgate.provider": "plain", "modelgate.upstream_model": "up",
		"modelgate.outcome":  "finished",
		"modelgate.attempts": int64(1), "modelgate.key_id": "key_a", "modelgate.organization": "org",
		"modelgate.project": "proj",
	}, attributes)

	all := m.collector.Metrics()
	count := func(name string) uint64 { return all[name].GetHistogram().GetDataPoints()[0].GetCount() }
	require.EqualValues(t, 1, count(telemetry.MetricDuration))
	require.EqualValues(t, 1, count(telemetry.MetricFirstChunk))
	require.EqualValues(t, 4, count(telemetry.MetricPerChunk), "of five chunks, and the end mark is none")
	require.Len(t, all[telemetry.MetricTokens].GetHistogram().GetDataPoints(), 2)
	require.Contains(t, all, "modelgate_requests_total")
}

func TestSpanOfARefusal(t *testing.T) {
	m := newMeasured(t, true)
	m.ask(m.url, chats, hi("plain/"+strings.Repeat("made-up", 9), ""), refusedBy("plain", http.StatusTooManyRequests))
	spans := m.spans()
	require.Len(t, spans, 1)
	attributes := otlptest.Attributes(spans[0].GetAttributes())
	require.Equal(t, "chat", spans[0].GetName(), "the model is none that there is")
	require.Equal(t, "_OTHER", attributes["gen_ai.request.model"])
	require.NotContains(t, attributes, "modelgate.upstream_model")
	require.Equal(t, "429", attributes["error.type"])
	require.Equal(t, tracev1.Status_STATUS_CODE_ERROR, spans[0].GetStatus().GetCode())
	require.Empty(t, spans[0].GetParentSpanId())
	require.NotContains(t, m.collector.Metrics(), telemetry.MetricTokens, "the conventions count those of success alone")
}

var outgoing = regexp.MustCompile(`^00-` + parentTrace + `-([0-9a-f]{16})-0([01])$`)

func TestTraceContextReachesOnlyProvidersThatAreToHaveIt(t *testing.T) {
	m := newMeasured(t, true)
	client := []string{"traceparent", parent, "tracestate", "vendor=x", "baggage", "secret=1"}
	clean := func(h http.Header) {
		t.Helper()
		for _, name := range []string{"traceparent", "tracestate", "baggage"} {
			require.Empty(t, h.Get(name))
		}
	}
	joined := func(h http.Header, line map[string]any) {
		t.Helper()
		require.Regexp(t, outgoing, h.Get("traceparent"))
		require.Equal(t, line["span_id"], outgoing.FindStringSubmatch(h.Get("traceparent"))[1], "our span is the parent")
		require.Equal(t, "vendor=x", h.Get("tracestate"))
		require.Empty(t, h.Get("baggage"))
	}
	clean(m.ask(m.url, chats, hi("first", ""), document, client...)[0])
	joined(m.ask(m.url, chats, hi("second", ""), document, client...)[0], m.line())
	asked := m.ask(m.url, chats, hi("first", ""), refusedBy("plain", 503), client...)
	require.Len(t, asked, 2)
	clean(asked[0])
	joined(asked[1], m.line())
	asked = m.ask(m.url, chats, hi("second", ""), refusedBy("traced", 503), client...)
	require.Len(t, asked, 2)
	joined(asked[0], m.line())
	clean(asked[1])

	joined(m.ask(m.url, "/traced/x", `{}`, document, client...)[0], m.line())
	clean(m.ask(m.url, "/plain/x", `{}`, document, client...)[0])
	joined(m.ask(m.url, "/v1/batches", `{}`, document, client...)[0], m.line())
	joined(m.ask(m.internal, chats, hi("second", ""), document, append(client, envoy.HeaderKey, "key_a")...)[0], m.line())

	retried := 0
	for _, span := range m.spans() {
		require.Equal(t, parentTrace, hexOf(span.GetTraceId()))
		for _, e := range span.GetEvents() {
			retried++
			require.Equal(t, "retry", e.GetName())
			require.Contains(t, []any{"plain", "traced"}, otlptest.Attributes(e.GetAttributes())["modelgate.provider"])
		}
	}
	require.Equal(t, 2, retried)
}

func TestTraceContextThatIsNoneIsIgnored(t *testing.T) {
	m := newMeasured(t, true)
	bad := []string{"", "00", "00-" + parentTrace, "00-00000000000000000000000000000000-" + parentSpan + "-01", "00-" +
		parentTrace + "-0000000000000000-01",
		"ff-" + parentTrace + "-" + parentSpan + "-01", strings.ToUpper(parent), parent + "-more", "MARK" + parent,
		strings.Repeat("0", 4096)}
	for _, header := range bad {
		asked := m.ask(m.url, chats, hi("second", ""), document, "traceparent", header, "tracestate", "MARK=1")
		require.NotContains(t, asked[0].Get("traceparent"), parentTrace, header)
		require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`, asked[0].Get("traceparent"))
		require.Empty(t, asked[0].Get("tracestate"))
	}
	spans := m.spans()
	require.Len(t, spans, len(bad))
	for _, span := range spans {
		require.Empty(t, span.GetParentSpanId())
	}
}

func TestATraceThatIsNotSampledIsPassedOn(t *testing.T) {
	m := newMeasured(t, true)
	asked := m.ask(m.url, chats, hi("second", ""), document, "traceparent", strings.TrimSuffix(parent, "1")+"0")
	require.Equal(t, "0", outgoing.FindStringSubmatch(asked[0].Get("traceparent"))[2])
	require.Equal(t, parentTrace, m.line()["trace_id"], "the log's lines are found all the same")
	require.Empty(t, m.spans())
}

func TestWithoutACollectorATraceIsPassedOnAsItIs(t *testing.T) {
	m := newMeasured(t, false)
	asked := m.ask(m.url, chats, hi("second", ""), document, "traceparent", parent, "tracestate", "vendor=x")
	require.Equal(t, parent, asked[0].Get("traceparent"))
	require.Equal(t, "vendor=x", asked[0].Get("tracestate"))
	require.Equal(t, parentTrace, m.line()["trace_id"])
	require.NotContains(t, m.line(), "span_id", "that is the client's")
	asked = m.ask(m.url, chats, hi("second", ""), document)
	require.Empty(t, asked[0].Get("traceparent"))
	require.NotContains(t, m.line(), "trace_id")
}

// TestTelemetryHasNothingThatAClientSaid asks in every way with a mark wherever a client can put one, and looks for it
// in whatever leaves the process as telemetry.
func TestTelemetryHasNothingThatAClientSaid(t *testing.T) {
	const mark = "M4RK"
	m := newMeasured(t, true)
	headers := []string{"X-Request-Id", mark, "User-Agent", mark, "Openai-Organization", mark, "X-Stainless-Lang", mark,
		"baggage", mark + "=1", "Cookie", mark}
	says := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("X-Request-Id", mark)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.NewReplacer("hi", mark, "up-2025", mark).Replace(body))
		}
	}
	bodies := []string{
		`{"model":"%","user":"M4RK","messages":[{"role":"user","content":"M4RK"}],"metadata":{"M4RK":"M4RK"}}`,
		`{"model":"%","stream":true,"user":"M4RK","messages":[{"role":"system","content":"M4RK"},{"role":"user","content":"M4RK"}]}`,
		`{"model":"%","M4RK":1,"messages":"M4RK"}`,
		`M4RK`,
	}
	answers := []http.HandlerFunc{
		says(200, "application/json", unary),
		says(200, "text/event-stream", strings.Repeat(event, 2)+lastEvent),
		says(200, "text/event-stream", event), // truncated
		says(200, "text/event-stream", `data: {"error":{"message":"M4RK","type":"M4RK","code":"M4RK"}}`+"\n\n"),
		says(200, mark, mark),
		says(400, "application/json", `{"error":{"message":"M4RK","type":"M4RK","code":"M4RK","param":"M4RK"}}`),
		says(418, "text/plain", mark),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for _, model := range []string{"first", "second", "plain/M4RK", "M4RK", "M4RK/M4RK"} {
		for _, body := range bodies {
			for _, answer := range answers {
				m.ask(m.url, chats, strings.ReplaceAll(body, "%", model), answer, headers...)
			}
		}
	}
	for _, path := range []string{"/M4RK", "/v1/M4RK?M4RK=M4RK", "/v1/models/M4RK", "/traced/M4RK?M4RK", "/v1/files/M4RK",
		"/v1/organization/M4RK"} {
		m.ask(m.url, path, `{"M4RK":1}`, answers[0], headers...)
	}
	m.ask(m.url, chats, bodies[0], answers[0], "Authorization", "Bearer "+mark)

	spans := m.spans()
	require.Greater(t, len(spans), 100)
	for _, span := range spans {
		require.NotContains(t, span.String(), mark)
	}
	for name, metric := range m.collector.Metrics() {
		require.NotContains(t, metric.String(), mark, name)
	}
	families, err := prometheus.Gatherer(m.telemetry).Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.NotContains(t, f.String(), mark)
	}
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }
