package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

var errNotYet = errors.New("not yet")

// TestADeadProviderBehindAFallbackIsSeen holds that an attempt that Envoy has tried again elsewhere is told by the
// request log, the access log and the health of its provider, with the reason that Envoy alone knows.
func TestADeadProviderBehindAFallbackIsSeen(t *testing.T) {
	g := startRun(t, t.TempDir())
	over := make(chan struct{})
	server := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasPrefix(r.URL.Path, "/resets"):
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(r.URL.Path, "/tired"):
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.HasPrefix(r.URL.Path, "/broken"):
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/silent"):
			select {
			case <-r.Context().Done():
			case <-over:
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
				`"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
		}
	})
	t.Cleanup(func() { close(over) })
	dead := map[string]struct {
		endpoint, why string
		status        int
	}{
		"absent": {"http://127.0.0.1:1/v1", "connection failed: Connection refused", 0},
		"resets": {server.URL + "/resets", "connection closed", 0},
		"silent": {server.URL + "/silent", "timeout", 0},
		"broken": {server.URL + "/broken", "status 500", 500},
		"tired":  {server.URL + "/tired", "status 429", 429},
	}
	text := "kind: Provider\nname: alive\nvendor: openai\nendpoint: " + server.URL + "/alive\n"
	for name, p := range dead {
		text += "---\nkind: Provider\nname: " + name + "\nvendor: openai\nendpoint: " + p.endpoint + "\n---\n" +
			"kind: Model\nname: m-" + name + "\ntimeouts: {first_byte: 1s}\ntargets:\n" +
			"- {provider: " + name + ", model: first-model}\n- {provider: alive, model: second-model, priority: 1}\n"
	}
	text += "---\nkind: Provider\nname: nameless\nvendor: openai\nendpoint: http://nowhere.invalid/v1\n---\n" +
		"kind: Model\nname: m-nameless\ntargets:\n- {provider: nameless, model: only-model}\n"
	harness.Must(t, text, "config", "apply", "--data", g.Dir, "-f", "-")
	for name := range dead {
		harness.Eventually(t, "configuration in force", func() error { return g.has("m-" + name) })
	}
	harness.Eventually(t, "configuration in force", func() error { return g.has("m-nameless") })
	for name, p := range dead {
		status, header := g.chat(t, "m-"+name)
		require.Equal(t, http.StatusOK, status, name)
		line := g.Logged(t, header.Get("X-Request-Id"))
		require.Len(t, line["attempt_list"], 2, name)
		require.Equal(t, p.why, line["attempt_list"].([]any)[0].(map[string]any)["error"], name)

		e := g.exchange(t, header.Get("X-Request-Id"))
		require.Len(t, e.AttemptList, 2, name)
		first, second := e.AttemptList[0], e.AttemptList[1]
		require.Equal(t, adminapi.Attempt{Kind: "first", Provider: name, Model: "first-model", Status: p.status,
			Error: p.why, StartMS: first.StartMS, FirstByteMS: first.FirstByteMS, DurationMS: first.DurationMS}, first)
		require.Equal(t, adminapi.Attempt{Kind: "fallback", Provider: "alive", Model: "second-model", Status: 200,
			StartMS: second.StartMS, FirstByteMS: second.FirstByteMS, DurationMS: second.DurationMS}, second)
		require.Positive(t, second.FirstByteMS)
		require.GreaterOrEqual(t, second.StartMS, first.StartMS+first.DurationMS-1)
		if name == "silent" {
			require.GreaterOrEqual(t, first.DurationMS, time.Second.Milliseconds()-1)
		}
	}
	health := g.health(t)
	require.Equal(t, int64(len(dead)), health["alive"].Last15Minutes.Attempts)
	require.Zero(t, health["alive"].Last15Minutes.Failed)
	for name, p := range dead {
		h := health[name]
		require.Equal(t, adminapi.ProviderFailing, h.State, name)
		require.Equal(t, int64(1), h.Last15Minutes.Attempts, name)
		require.Equal(t, int64(1), h.Last24Hours.Failed, name)
		require.Equal(t, p.why, h.LastError, name)
		require.Equal(t, name == "tired", h.CoolingUntil != nil, name)
	}

	// Envoy answers for a provider that has no address.
	status, header := g.chat(t, "m-nameless")
	require.Equal(t, http.StatusServiceUnavailable, status)
	e := g.exchange(t, header.Get("X-Request-Id"))
	require.Equal(t, []adminapi.Attempt{{Kind: "first", Provider: "nameless", Model: "only-model", Error: "no address",
		StartMS: e.AttemptList[0].StartMS, DurationMS: e.AttemptList[0].DurationMS}}, e.AttemptList)
	require.Equal(t, "no address", g.health(t)["nameless"].LastError)

	// A request without a valid key is in the request log, with what is needed to find whose it is, and in no sum.
	g.Key = "mg-a-key-that-nobody-has-made-7xyz"
	status, header = g.chat(t, "m-absent")
	require.Equal(t, http.StatusUnauthorized, status)
	e = g.exchange(t, header.Get("X-Request-Id"))
	require.Equal(t, "unknown key", e.RefusedBy)
	require.Equal(t, "7xyz", e.KeyHint)
	require.Equal(t, "invalid_api_key", e.ErrorCode)
	require.Equal(t, http.StatusUnauthorized, e.Status)
	require.Empty(t, e.AttemptList)
	_, body := g.adminGet(t, "/admin/v1/summary")
	var sum adminapi.Summary
	require.NoError(t, json.Unmarshal([]byte(body), &sum), body)
	require.Equal(t, int64(len(dead)+1), sum.Requests)
	require.Equal(t, int64(1), sum.Errors)
}

// exchange waits for the exchange of a request in the request log, and returns it with its attempts.
func (g *gateway) exchange(t *testing.T, requestID string) (e adminapi.Exchange) {
	t.Helper()
	harness.Eventually(t, "the request in the request log", func() error {
		_, body := g.adminGet(t, "/admin/v1/requests?limit=500")
		var page adminapi.Page[adminapi.Exchange]
		require.NoError(t, json.Unmarshal([]byte(body), &page), body)
		for _, x := range page.Items {
			if x.RequestID == requestID && x.Outcome != "interrupted" {
				_, body := g.adminGet(t, "/admin/v1/requests/"+x.ID)
				require.NoError(t, json.Unmarshal([]byte(body), &e), body)
				return nil
			}
		}
		return errNotYet
	})
	return e
}

func (g *gateway) health(t *testing.T) map[string]adminapi.ProviderHealth {
	t.Helper()
	_, body := g.adminGet(t, "/admin/v1/health")
	var all adminapi.Health
	require.NoError(t, json.Unmarshal([]byte(body), &all), body)
	found := map[string]adminapi.ProviderHealth{}
	for _, h := range all.Providers {
		found[h.Provider] = h
	}
	return found
}
