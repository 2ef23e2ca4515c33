package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/telemetry/otlptest"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A tracedVendor keeps what each request says of a trace.
type tracedVendor struct {
	url string

	mu      sync.Mutex // guards what follows
	parents []string
}

func newTracedVendor(t *testing.T, refuses bool) *tracedVendor {
	v := &tracedVendor{}
	v.url = cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.parents = append(v.parents, r.Header.Get("Traceparent")+r.Header.Get("Tracestate")+r.Header.Get("Baggage"))
		v.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if refuses {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
			return
		}
		_, _ = w.Write(cases.Recording(t, "openai-text.json"))
	}).URL
	return v
}

func (v *tracedVendor) saw() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.parents
	v.parents = nil
	return seen
}

// TestTraces holds over the real Envoy what extproc's own tests hold over the one that is played, and that the lines
// of a batch join its span.
func TestTraces(t *testing.T) {
	collector := otlptest.Start(t)
	collector.Use(t)
	g := startRun(t, t.TempDir())
	good, bad := newTracedVendor(t, false), newTracedVendor(t, true)
	provider := func(name, url string, traced bool) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: "openai", Endpoint: url + "/v1", TraceContext: traced}
	}
	model := func(name, first, then string) *configv1.Model {
		return &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: first, Model: "m"},
			{Provider: then, Model: "m", Priority: 1}}}
	}
	g.Apply(t, provider("good", good.url, false), provider("good-traced", good.url, true),
		provider("bad", bad.url, false), provider("bad-traced", bad.url, true),
		model("into", "bad", "good-traced"), model("out-of", "bad-traced", "good"))
	c := g.As(g.Key)
	harness.Eventually(t, "configuration in force", func() error { return g.has("out-of") })

	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	ask := func(model string) {
		a := c.Do(t, http.MethodPost, chatPath, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`,
			"traceparent", "00-"+trace+"-"+parent+"-01", "tracestate", "v=1", "baggage", "b=1")
		require.Equal(t, 200, a.Status, "%s", a.Body)
	}
	ask("into")
	require.Equal(t, []string{""}, bad.saw(), "only who is to have it")
	joined := good.saw()
	require.Len(t, joined, 1)
	require.Regexp(t, "^00-"+trace+"-[0-9a-f]{16}-01v=1$", joined[0])
	ask("out-of")
	require.Regexp(t, "^00-"+trace+"-[0-9a-f]{16}-01v=1$", strings.Join(bad.saw(), " "))
	require.Equal(t, []string{""}, good.saw(), "what another provider was to get is taken away")

	var lines []string
	for _, id := range []string{"a", "b", "c"} {
		lines = append(lines, harness.ChatLine(id, "good-traced/m", "hi"))
	}
	batch := c.Await(t, c.Begin(t, chatPath, lines...))
	require.Equal(t, 3, batch.Counts.Completed)
	g.Stop(t)

	var whole *tracev1.Span
	byParent := map[string][]*tracev1.Span{}
	for _, s := range collector.Spans() {
		if s.GetName() == "batch" {
			whole = s
		}
		byParent[hex.EncodeToString(s.GetParentSpanId())] = append(byParent[hex.EncodeToString(s.GetParentSpanId())], s)
	}
	require.Len(t, byParent[parent], 2, "the spans of the client's requests")
	for _, s := range byParent[parent] {
		require.Len(t, s.GetEvents(), 1, "a retry")
	}
	require.NotNil(t, whole)
	require.Equal(t, batch.ID, otlptest.Attributes(whole.GetAttributes())["modelgate.batch_id"])
	require.Len(t, byParent[hex.EncodeToString(whole.GetSpanId())], 3, "the lines")
	require.Len(t, good.saw(), 3)
	all := collector.Metrics()
	require.Contains(t, all, "gen_ai.client.operation.duration")
	require.Contains(t, all, "modelgate_requests_total")
}
