// Package cases holds what the gateway must do, as a client sees it, over providers that replay what real ones sent.
// The same cases run over extproctest, in one process, and over the real Envoy.
//
// A case knows only the Gateway it is given. What it needs of the configuration is in
// [Config], and how a provider behaves it says itself, on the Vendor.
package cases

import (
	"bytes"
	"embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

//go:embed testdata/*.sse testdata/*.json testdata/*.eventstream
var recordings embed.FS

// Recording returns a recorded answer by the name of its file.
func Recording(t testing.TB, name string) []byte {
	b, err := recordings.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return b
}

// Credentials that the providers of a case are configured with. None may ever reach a client or another provider.
const (
	CredentialA = "credential-of-provider-a"
	CredentialB = "credential-of-provider-b"
	CredentialC = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+secret-of-provider-c"
)

// A Gateway is a running gateway with three providers: "a" speaks OpenAI's dialect, "b" Anthropic's, and "c", which is
// where b is, Bedrock's.
type Gateway struct {
	URL    string // without /v1
	Key    string
	Client *http.Client
	A, B   *Vendor
	// Logged waits for the line of the access log of a request, by the id that the client gave it, and returns it.
	Logged func(t testing.TB, requestID string) map[string]any
	// NewKey makes a key with what k says of it, and returns it once it lets somebody in.
	NewKey func(t testing.TB, k *configv1.Key) string
	// NewRefusedKey is NewKey for a key that lets nobody in.
	NewRefusedKey func(t testing.TB, k *configv1.Key) string
}

// A Start starts a gateway over two vendors with the configuration of [Config]. It stops with the test.
type Start func(t *testing.T, a, b *Vendor) *Gateway

// Config is the configuration of the cases: the providers, where their servers are, models that fall back, routes, and
// a catalog that knows better.
func Config(a, b *Vendor) []configv1.Object {
	target := func(provider, model string, priority uint32) *configv1.Target {
		return &configv1.Target{Provider: provider, Model: model, Priority: priority}
	}
	value := func(s string) *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_Value{Value: s}}
	}
	return append(tenants(),
		&configv1.Provider{Name: "a", Vendor: "openai", Endpoint: a.URL + "/v1", Credential: value(CredentialA),
			Models: []string{"gpt-4.1"}},
		&configv1.Provider{Name: "b", Vendor: "anthropic", Endpoint: b.URL + "/v1", Credential: value(CredentialB)},
		&configv1.Provider{Name: "c", Vendor: "bedrock", Region: "us-east-1", Endpoint: b.URL,
			Credential: value(CredentialC)},
		&configv1.Provider{Name: "d", Vendor: "gemini", Endpoint: b.URL + "/v1beta", Credential: value(CredentialB)},
		&configv1.Provider{Name: "narrow", Vendor: "openai", Endpoint: a.URL + "/v1", Credential: value(CredentialA),
			Concurrency: &configv1.Concurrency{MaxRequests: 1, MaxPending: 1, MaxWait: durationpb.New(soon)}},
		&configv1.Model{Name: "narrow-first", Targets: []*configv1.Target{target("narrow", "x", 0),
			target("b", "claude-haiku-4-5", 1)}},
		&configv1.Model{Name: "smart", Targets: []*configv1.Target{target("a", "gpt-4.1", 0),
			target("b", "claude-haiku-4-5", 1)}},
		&configv1.Model{Name: "reversed", Targets: []*configv1.Target{target("b", "claude-haiku-4-5", 0),
			target("a", "gpt-4.1", 1)}},
		&configv1.Model{Name: "once", Targets: []*configv1.Target{target("a", "gpt-4.1", 0)},
			Retry: &configv1.Retry{MaxAttempts: 1}},
		&configv1.Route{Name: "rerank", PathPrefix: "/v1/ocr", Provider: "a"},
		&configv1.Route{Name: "claude", PathPrefix: "/anthropic/", Provider: "b", RewritePrefix: new("/")},
		&configv1.Route{Name: "deep", PathPrefix: "/anthropic/deep", Provider: "a", RewritePrefix: new("/v2/")},
		&configv1.Route{Name: "google", PathPrefix: "/v1beta/models/routed/", Provider: "d"},
		&configv1.Route{Name: "bedrock", PathPrefix: "/bedrock/", Provider: "c", RewritePrefix: new("/")},
		&configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{
			{Vendors: []string{"anthropic"}, Models: []string{"limited-*"},
				Capabilities: &configv1.Capabilities{MaxOutputTokens: new(int64(77))}},
		}},
	)
}

// A Vendor is a provider's server. It records what it was asked.
type Vendor struct {
	*httptest.Server

	mu       sync.Mutex // guards what follows
	requests []Request
	answer   http.HandlerFunc
	streams  bool // answer reads the body, which is not recorded
}

// A Request is what a vendor was asked.
type Request struct {
	Method, Path string
	Header       http.Header
	Length       int64 // -1 where it was chunked
	Body         []byte
}

// JSON returns the body of a request, decoded.
func (r Request) JSON(t testing.TB) map[string]any {
	var m map[string]any
	require.NoError(t, json.Unmarshal(r.Body, &m), "%s", r.Body)
	return m
}

// NewProvider starts a provider's server. It has no list of models, for which the gateway asks in the background.
func NewProvider(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models") {
			http.NotFound(w, r)
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func newVendor(t *testing.T) *Vendor {
	v := &Vendor{}
	v.Server = NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		answer, streams := v.answer, v.streams
		v.mu.Unlock()
		var body []byte
		if !streams {
			var err error
			if body, err = io.ReadAll(r.Body); err != nil {
				return
			}
		}
		v.mu.Lock()
		v.requests = append(v.requests, Request{r.Method, r.URL.RequestURI(), r.Header.Clone(), r.ContentLength, body})
		v.mu.Unlock()
		if answer == nil {
			http.Error(w, "no answer prepared", http.StatusTeapot)
			return
		}
		answer(w, r)
	})
	return v
}

// Answers sets how the vendor answers from now on, and forgets what it was asked before.
func (v *Vendor) Answers(h http.HandlerFunc) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer, v.streams, v.requests = h, false, nil
}

// Streams is Answers for a handler that reads the request's body itself.
func (v *Vendor) Streams(h http.HandlerFunc) {
	v.Answers(h)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.streams = true
}

// Requests returns what the vendor was asked since Answers was called.
func (v *Vendor) Requests() []Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]Request(nil), v.requests...)
}

// status answers with a status and a JSON body.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// stream answers with an event stream in pieces of a size, flushed one by one.
func stream(body []byte, size int) http.HandlerFunc {
	return streamAs("text/event-stream; charset=utf-8", body, size)
}

func streamAs(contentType string, body []byte, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Set-Cookie", "vendor=1")
		w.Header().Set("X-Request-Id", "vendor-request")
		for piece := range slices.Chunk(body, size) {
			if _, err := w.Write(piece); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// An Answer is what a client got.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // of reading the body: the connection was cut
}

// Do sends a request to the gateway, with its key unless headers say otherwise.
func (g *Gateway) Do(t testing.TB, method, path, body string, headers ...string) Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	require.NotContains(t, string(b), CredentialA)
	require.NotContains(t, string(b), CredentialB)
	require.NotContains(t, string(b), strings.SplitAfter(CredentialC, ":")[1])
	return Answer{response.StatusCode, response.Header, b, err}
}

// Chat asks for a chat completion.
func (g *Gateway) Chat(t testing.TB, body string) Answer {
	t.Helper()
	return g.Do(t, http.MethodPost, "/v1/chat/completions", body)
}

// A Failure is the error that a client got.
type Failure struct {
	Message, Type string
	Param, Code   any
}

// Failure returns the error of an answer, which must be OpenAI's JSON with all its members.
func (a Answer) Failure(t testing.TB) Failure {
	t.Helper()
	require.Equal(t, "application/json", a.Header.Get("Content-Type"), "%s", a.Body)
	return failure(t, a.Body)
}

func failure(t testing.TB, body []byte) Failure {
	t.Helper()
	var e struct{ Error map[string]any }
	require.NoError(t, json.Unmarshal(body, &e), "%s", body)
	for _, member := range []string{"message", "type", "param", "code"} {
		require.Contains(t, e.Error, member, "%s", body)
	}
	message, _ := e.Error["message"].(string)
	typ, _ := e.Error["type"].(string)
	require.NotEmpty(t, message)
	require.NotEmpty(t, typ)
	return Failure{message, typ, e.Error["param"], e.Error["code"]}
}

// JSON returns the body of an answer, decoded.
func (a Answer) JSON(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(a.Body, &m), "%s", a.Body)
	return m
}

// Events returns the data of the events of a streamed answer.
func (a Answer) Events(t testing.TB) []string {
	t.Helper()
	require.Equal(t, "text/event-stream; charset=utf-8", a.Header.Get("Content-Type"), "%s", a.Body)
	var events []string
	for _, e := range strings.Split(strings.TrimSuffix(string(a.Body), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(e, "data: ")
		require.True(t, ok, "%q", e)
		require.NotContains(t, data, "\n")
		events = append(events, data)
	}
	return events
}

// soon is how long a case waits for what must happen at once.
const soon = 10 * time.Second
