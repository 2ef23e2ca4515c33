package e2e

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// TestStoredResponses runs the Responses API with state over Envoy, with a provider that has no such API.
func TestStoredResponses(t *testing.T) {
	s := newJobSplit(t, "--lease", "2s")
	s.object.StoredResponses = &configv1.StoredResponses{}
	s.start()
	s.startService(0)
	s.startService(1)
	s.awaitJobs(t)
	t.Run("another organization sees nothing", s.foreignResponses)
	t.Run("state survives a restart of every process", s.responsesSurvive)
	t.Run("a background response survives its worker", s.backgroundSurvives)
	t.Run("the job service is away", s.responsesAway)
}

// respond asks for a response and returns its object.
func (s *jobSplit) respond(t *testing.T, key, members string) gjson.Result {
	t.Helper()
	status, text, err := s.post("/v1/responses", key, `{"model":"echo/echo",`+members+`}`)
	require.NoError(t, err)
	require.Equal(t, 200, status, text)
	return gjson.Parse(text)
}

// ofResponse asks about a stored response.
func (s *jobSplit) ofResponse(t *testing.T, method, key, path string) (int, gjson.Result) {
	t.Helper()
	c := s.as(key)
	a := c.Do(t, method, "/v1/responses/"+path, "")
	return a.Status, gjson.ParseBytes(a.Body)
}

func (s *jobSplit) foreignResponses(t *testing.T) {
	_, other := s.createKey(t, "stranger")
	id := s.respond(t, s.Key, `"input":"mine"`).Get("id").Str
	status, _ := s.ofResponse(t, http.MethodGet, s.Key, id)
	require.Equal(t, 200, status)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		status, body := s.ofResponse(t, method, other, id)
		require.Equal(t, 404, status, body.Raw)
	}
	status, text, err := s.post("/v1/responses", other, `{"model":"echo/echo","input":"x","previous_response_id":"`+id+`"}`)
	require.NoError(t, err)
	require.Equal(t, 400, status, text)
	require.Contains(t, text, "previous_response_not_found")
}

func (s *jobSplit) responsesSurvive(t *testing.T) {
	first := s.respond(t, s.Key, `"input":"before","metadata":{"a":"b"}`)
	for _, p := range []*harness.Process{s.services[0], s.services[1], s.envoy, s.extproc, s.planes[0], s.planes[1]} {
		p.Kill()
	}
	s.planes[0], s.planes[1] = s.startPlane(0), s.startPlane(1)
	s.startExtProc()
	s.startEnvoy()
	s.awaitService()
	s.startService(0)
	s.startService(1)
	s.awaitJobs(t)
	status, again := s.ofResponse(t, http.MethodGet, s.Key, first.Get("id").Str)
	require.Equal(t, 200, status, again.Raw)
	require.JSONEq(t, first.Raw, again.Raw)
	status, text, err := s.post("/v1/responses", s.Key, `{"model":"echo/echo","stream":true,"input":"after",`+
		`"previous_response_id":"`+first.Get("id").Str+`"}`)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Contains(t, text, "event: response.completed")
	status, items := s.ofResponse(t, http.MethodGet, s.Key, first.Get("id").Str+"/input_items")
	require.Equal(t, 200, status)
	require.Equal(t, "before", items.Get("data.0.content.0.text").Str)
}

// backgroundSurvives kills both job services while a provider is asked. The next worker asks again.
func (s *jobSplit) backgroundSurvives(t *testing.T) {
	asked, open := make(chan struct{}, 8), make(chan struct{})
	provider := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client's
		asked <- struct{}{}
		select {
		case <-open:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
	})
	text := harness.Documents(t, &configv1.Provider{Name: "slow", Vendor: "mistral", Endpoint: provider.URL + "/v1",
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}})
	harness.Must(t, text, append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	harness.Eventually(t, "the provider", func() error { return s.has("slow/any") })

	status, made, err := s.post("/v1/responses", s.Key, `{"model":"slow/any","input":"think","background":true}`)
	require.NoError(t, err)
	require.Equal(t, 200, status, made)
	require.Equal(t, "queued", gjson.Get(made, "status").Str)
	<-asked
	s.services[0].Kill()
	s.services[1].Kill()
	s.startService(0)
	s.startService(1)
	<-asked
	close(open)
	s.awaitJobs(t)
	harness.Eventually(t, "the response ends", func() error {
		status, got := s.ofResponse(t, http.MethodGet, s.Key, gjson.Get(made, "id").Str)
		if status != 200 || got.Get("status").Str != "completed" {
			return fmt.Errorf("%d %s", status, got.Raw)
		}
		require.Equal(t, "done", got.Get("output.0.content.0.text").Str)
		return nil
	})
}

// responsesAway: what needs the store fails, and nothing else.
func (s *jobSplit) responsesAway(t *testing.T) {
	s.services[0].Kill()
	s.respond(t, s.Key, `"input":"hi","store":false`)
	status, text, err := s.post("/v1/responses", s.Key, `{"model":"echo/echo","input":"hi"}`)
	require.NoError(t, err)
	require.Equal(t, 503, status, text)
	require.NotEmpty(t, gjson.Get(text, "error.code").Str)
	require.NotContains(t, text, "upstream connect error")
}
