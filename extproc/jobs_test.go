package extproc

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/extproctest"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// TestTheJobServiceAndTheWayBack plays both of Envoy's listeners: what a client sends reaches the job service as it
// comes, and what the job service asks reaches a provider.
func TestTheJobServiceAndTheWayBack(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Request-Id", "theirs")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			_, _ = io.WriteString(w,
				`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
			return
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Modelgate-") {
				_, _ = io.WriteString(w, name+"="+r.Header.Get(name)+" ")
			}
		}
		_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization")+" "+
			r.Header.Get("X-Request-Id")+" "+string(body))
	}))
	t.Cleanup(upstream.Close)
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Name: "a", Credential: "credential",
		Provider: &configv1.Provider{Name: "a", Vendor: "openai", Endpoint: upstream.URL + "/base"}},
		all.Providers()["openai"])
	require.NoError(t, err)
	secret := auth.Generate().Reveal()
	key := &configv1.Key{Name: "key_a", Organization: "org"}
	config := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"a": p}},
	}
	config.Keyring = keyring(config, map[string]string{"key_a": secret}, key)
	core, logs := observer.New(zap.InfoLevel)
	player := extproctest.New(startServerWithLog(t, config, zap.New(core)),
		map[string]string{"a": upstream.URL, envoy.ClusterJobs: upstream.URL})
	edge, internal := httptest.NewServer(player), httptest.NewServer(player.Internal())
	t.Cleanup(edge.Close)
	t.Cleanup(internal.Close)

	ask := func(method, url, body string, header ...string) (int, string, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text), answer.Header
	}
	line := func(path string) map[string]any {
		var found map[string]any
		require.Eventually(t, func() bool {
			for _, e := range logs.FilterMessage("request").All() {
				if e.ContextMap()["path"] == path {
					found = e.ContextMap()
				}
			}
			return found != nil
		}, 10*time.Second, time.Millisecond)
		return found
	}

	status, text, header := ask("POST", edge.URL+"/v1/files?a=b", "bytes", "Authorization", "Bearer "+secret,
		envoy.HeaderProject, "forged")
	require.Equal(t, 200, status)
	require.Contains(t, text, "X-Modelgate-Key=key_a")
	require.Contains(t, text, "X-Modelgate-Organization=org")
	require.NotContains(t, text, "forged")
	require.Contains(t, text, "POST /v1/files?a=b  test-request bytes")
	require.Equal(t, "test-request", header.Get("X-Request-Id"))
	logged := line("/v1/files")
	require.Equal(t, "files", logged["operation"])
	require.Equal(t, "key_a", logged["key_id"])
	require.NotContains(t, logged, "internal")
	require.NotContains(t, logged, "charge")

	status, _, _ = ask("POST", internal.URL+"/v1/chat/completions",
		`{"model":"a/m","messages":[{"role":"user","content":"x"}]}`,
		"Content-Type", "application/json", envoy.HeaderKey, "key_a", envoy.HeaderCharge, "batch_1/2")
	require.Equal(t, 200, status)
	logged = line("/v1/chat/completions")
	require.Equal(t, true, logged["internal"])
	require.Equal(t, "batch_1/2", logged["charge"])
	require.Equal(t, "key_a", logged["key_id"])
	require.EqualValues(t, 3, logged["prompt_tokens"])

	status, text, header = ask("POST", internal.URL+"/fine_tuning/jobs?x=y", "job", envoy.HeaderProvider, "a")
	require.Equal(t, 200, status)
	require.Equal(t, "POST /base/fine_tuning/jobs?x=y Bearer credential  job", text)
	require.Equal(t, "theirs", header.Get("X-Request-Id"))
	require.Equal(t, "provider", line("/fine_tuning/jobs")["operation"])

	status, text, _ = ask("GET", internal.URL+"/v1/models/a%2Fm", "", envoy.HeaderKey, "key_gone")
	require.Equal(t, 401, status)
	require.Contains(t, text, "invalid_api_key")
}

// TestRequestsForStoredResponsesGoToTheJobService: only they, only where responses are stored, and not those of the
// job service itself. The answer reaches the client as it comes.
func TestRequestsForStoredResponsesGoToTheJobService(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get(envoy.HeaderKey) == "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":`+
				`{"role":"assistant","content":"provider"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Ratelimit-Limit-Requests", "7")
		for range 3 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, r.RequestURI+" "+r.Header.Get(envoy.HeaderKey)+" "+r.Header.Get("x-modelgate-include-cost")+
			" "+r.Header.Get("Content-Length")+" "+string(body))
	}))
	t.Cleanup(upstream.Close)
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Name: "a", Credential: "credential",
		Provider: &configv1.Provider{Name: "a", Vendor: "anthropic", Endpoint: upstream.URL,
			AllowUnlistedModels: proto.Bool(true)}},
		all.Providers()["anthropic"])
	require.NoError(t, err)
	secret := auth.Generate().Reveal()
	config := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"a": p}},
	}
	config.Keyring = keyring(config, map[string]string{"key_a": secret}, &configv1.Key{Name: "key_a"})
	storing := *config
	storing.StoresResponses = true
	edge := func(c *exchange.Config) (edge, internal string) {
		player := extproctest.New(startServer(t, c), map[string]string{"a": upstream.URL, envoy.ClusterJobs: upstream.URL})
		at, inside := httptest.NewServer(player), httptest.NewServer(player.Internal())
		t.Cleanup(at.Close)
		t.Cleanup(inside.Close)
		return at.URL, inside.URL
	}
	on, internal := edge(&storing)
	off, _ := edge(config)

	ask := func(method, url, body string, header ...string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	const events = "data: {}\n\ndata: {}\n\ndata: {}\n\n"
	body := `{"model":"a/m","input":"hi","previous_response_id":"resp_1"}`
	status, text := ask("POST", on+"/v1/responses", body, "x-modelgate-include-cost", "true")
	require.Equal(t, 200, status, text)
	require.Equal(t, events+"/v1/responses key_a true "+strconv.Itoa(len(body))+" "+body, text)

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(body))
	require.NoError(t, z.Close())
	status, text = ask("POST", on+"/v1/responses", packed.String(), "Content-Encoding", "gzip")
	require.Equal(t, 200, status, text)
	require.Equal(t, events+"/v1/responses key_a  "+strconv.Itoa(len(body))+" "+body, text)

	for _, path := range []string{"/v1/responses/resp_1?stream=true", "/v1/conversations"} {
		status, text = ask("GET", on+path, "")
		require.Equal(t, 200, status, text)
		require.Contains(t, text, path+" key_a")
		status, text = ask("GET", off+path, "")
		require.Equal(t, 404, status, text)
		require.Contains(t, text, "its operator has not turned that on")
	}
	status, text = ask("POST", off+"/v1/responses", body)
	require.Equal(t, 400, status, text)
	require.Contains(t, text, "the operator of this gateway has not turned on that it stores responses")

	stateless := `{"model":"a/m","input":"hi","store":false}`
	for _, url := range []string{on, internal, off} {
		_, text = ask("POST", url+"/v1/responses", stateless, envoy.HeaderKey, "key_a")
		require.NotContains(t, text, events, url)
	}
	_, text = ask("POST", internal+"/v1/responses", body, envoy.HeaderKey, "key_a")
	require.NotContains(t, text, events)
}
