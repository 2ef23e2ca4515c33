package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// asksOf are requests of every client dialect for a model, by a name: path and body. In a path the model is in the
// place of %s, as it is in a body.
var asksOf = map[string][2]string{
	"chat":       {"/v1/chat/completions", `{"model":"%s","messages":[{"role":"user","content":"hi"}]}`},
	"chat live":  {"/v1/chat/completions", `{"model":"%s","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	"responses":  {"/v1/responses", `{"model":"%s","input":"hi","store":false}`},
	"messages":   {"/v1/messages", `{"model":"%s","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	"live":       {"/v1/messages", `{"model":"%s","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	"gemini":     {"/v1beta/models/%s:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
	"gemini sse": {"/v1beta/models/%s:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`},
}

// Errors that Envoy makes have the form of the client's dialect, whatever the provider's is, and one id: that of the
// log.
func TestErrorsOfEnvoyAreTheClients(t *testing.T) {
	t.Parallel()
	broken := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(broken.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	failures := map[string]struct {
		endpoint, code string
		status         int
		timeouts       *configv1.Timeouts
	}{
		"refused": {fmt.Sprintf("http://127.0.0.1:%d", harness.FreePort(t)), "upstream_unavailable", 503, nil},
		"broken":  {broken.URL, "upstream_unavailable", 503, nil},
		"silent": {silent.URL, "upstream_timeout", 504,
			&configv1.Timeouts{FirstByte: durationpb.New(50 * time.Millisecond)}},
	}
	vendors := []string{"openai", "anthropic", "gemini", "mistral"}
	g := harness.Run(t, t.TempDir(), "--concurrency", "1")
	var objects []configv1.Object
	for name, f := range failures {
		for _, vendor := range vendors {
			objects = append(objects, &configv1.Provider{Name: name + "-" + vendor, Vendor: vendor, Endpoint: f.endpoint,
				Timeouts: f.timeouts, Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "x"}}})
		}
	}
	twice := &configv1.Model{Name: "twice", Targets: []*configv1.Target{{Provider: "refused-openai", Model: "m"},
		{Provider: "broken-anthropic", Model: "m", Priority: 1}}}
	g.Apply(t, append(objects, twice)...)
	harness.Eventually(t, "configuration in force", func() error {
		if status, body, _ := sent(t, g, "GET", "/v1/models/twice", "", ""); status != 200 {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})

	for ask := range asksOf {
		t.Run(ask, func(t *testing.T) {
			t.Parallel()
			for name, f := range failures {
				for _, vendor := range vendors {
					id := strings.Join([]string{ask, name, vendor}, "-")
					failsAs(t, g, ask, name+"-"+vendor+"/m", strings.ReplaceAll(id, " ", "-"), f.status, f.code)
				}
			}
			failsAs(t, g, ask, "twice", strings.ReplaceAll(ask, " ", "-"), 503, "upstream_unavailable")
			failsAs(t, g, ask, "twice", "", 503, "upstream_unavailable")
		})
	}
}

// failsAs requires that a request fails in its own dialect, with one id that is in the log.
func failsAs(t *testing.T, g *harness.Gateway, ask, model, id string, status int, code string) {
	t.Helper()
	path, body := asksOf[ask][0], asksOf[ask][1]
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, model)
	} else {
		body = fmt.Sprintf(body, model)
	}
	got, text, h := sent(t, g, "POST", path, body, id)
	what := fmt.Sprintf("%s of %s: %d %s %v", ask, model, got, text, h)
	require.Equal(t, status, got, what)
	requireForm(t, ask, text, code, h.Get("X-Request-Id"))
	ids := h.Values("X-Request-Id")
	require.Len(t, ids, 1, what)
	if id != "" {
		require.Equal(t, id, ids[0], what)
	}
	if isMessages(ask) {
		require.Equal(t, ids, h.Values("Request-Id"), what)
	}
	line := g.Logged(t, ids[0])
	require.EqualValues(t, status, line["status"], what)
	require.Equal(t, code, line["error_code"], "%s: %v", what, line)
}

func isMessages(ask string) bool { return slices.Contains([]string{"messages", "live"}, ask) }

// requireForm requires that an error has the form of the dialect of a request.
func requireForm(t *testing.T, ask, text, code, id string) {
	t.Helper()
	var body struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct {
			Type, Message, Status string
			Code                  any
			Details               []struct{ Reason string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &body), "%s: %s", ask, text)
	require.NotEmpty(t, body.Error.Message, text)
	switch {
	case isMessages(ask):
		require.Equal(t, "error", body.Type, "%s: %s", ask, text)
		require.NotEmpty(t, body.Error.Type, text)
		require.Equal(t, id, body.RequestID, "%s: %s", ask, text)
	case strings.HasPrefix(ask, "gemini"):
		require.NotEmpty(t, body.Error.Status, "%s: %s", ask, text)
		require.NotEmpty(t, body.Error.Details, "%s: %s", ask, text)
		require.Equal(t, strings.ToUpper(code), body.Error.Details[0].Reason, text)
	default:
		require.Empty(t, body.Type, "%s: %s", ask, text)
		require.Empty(t, body.Error.Status, "%s: %s", ask, text)
		require.Equal(t, code, body.Error.Code, "%s: %s", ask, text)
	}
}

// sent sends a request, with an id if that is not empty, and returns the whole answer.
func sent(t *testing.T, g *harness.Gateway, method, path, body, id string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	if id != "" {
		r.Header.Set("X-Request-Id", id)
	}
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text), response.Header
}
