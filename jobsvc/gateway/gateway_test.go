package gateway

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
)

// serve returns a gateway to a server on a Unix socket.
func serve(t *testing.T, handle http.HandlerFunc) *Gateway {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(handle)
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	g, err := New("unix://"+path, nil, 4)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

func TestAsksOnBehalfOfAKey(t *testing.T) {
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, []string{"key_a", "team+a", "batch_1/7 again", "", "application/json", `{"model":"m"}`,
			"/v1/chat/completions"},
			[]string{r.Header.Get(envoy.HeaderKey), r.Header.Get(envoy.HeaderProject), r.Header.Get(envoy.HeaderCharge),
				r.Header.Get(envoy.HeaderProvider), r.Header.Get("Content-Type"), string(body), r.URL.Path})
		w.WriteHeader(http.StatusTeapot)
	})
	answer, err := g.Ask(t.Context(), Ask{Key: "key_a", Project: "team a", Charge: "batch_1/7", Again: true,
		Method: http.MethodPost, Path: "/v1/chat/completions", Body: []byte(`{"model":"m"}`)})
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusTeapot, answer.StatusCode)
}

func TestWhetherAKeyMayUseAModelIsTheGatewaysAnswer(t *testing.T) {
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch id := strings.TrimPrefix(r.URL.EscapedPath(), "/v1/models/"); id {
		case "a%2Fb":
			_, _ = io.WriteString(w, `{"id":"a/b","object":"model"}`)
		case "b":
			_, _ = io.WriteString(w, `{"id":"a/b","object":"model"}`)
		case "many":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":"model_not_found","message":"Please name one of: a/many, b/many."}}`)
		case "failing":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for model, want := range map[string]bool{"a/b": true, "a": false, "../b": false} {
		may, err := g.MayUse(t.Context(), "key_a", model)
		require.NoError(t, err, model)
		require.Equal(t, want, may, model)
	}
	found, err := g.Find(t.Context(), "key_a", "b")
	require.NoError(t, err)
	require.Equal(t, "a/b", found)
	_, err = g.Find(t.Context(), "key_a", "many")
	require.ErrorContains(t, err, "a/many, b/many")
	_, err = g.MayUse(t.Context(), "key_a", "failing")
	require.Error(t, err, "that the gateway is away is no answer")
}

func TestAProvidersOwnAPI(t *testing.T) {
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "p", r.Header.Get(envoy.HeaderProvider))
		require.Empty(t, r.Header.Get(envoy.HeaderKey))
		switch r.URL.RequestURI() {
		case "/files?limit=2":
			_, _ = io.WriteString(w, `{"ok":true}`)
		case "/moved":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":"`+strings.Repeat("long", 4<<10)+`"}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":"provider_not_found"}}`)
		}
	})
	var seen int
	c := g.Provider(&config.Provider{Config: &configv1.Provider{Name: "p"}, Vendor: provider.Provider{
		DecodeError: func(status int, _ http.Header, body []byte) *openai.Error {
			seen = len(body)
			return &openai.Error{Status: status}
		},
	}})
	var out struct{ OK bool }
	require.NoError(t, c.JSON(t.Context(), http.MethodGet, "/files?limit=2", nil, &out))
	require.True(t, out.OK)

	answer, err := c.Do(t.Context(), http.MethodGet, "/moved", "", nil)
	require.NoError(t, err, "a redirect is an answer, and is not followed")
	require.NoError(t, answer.Body.Close())

	_, err = c.Do(t.Context(), http.MethodGet, "/gone", "", nil)
	var e *openai.Error
	require.ErrorAs(t, err, &e, "the provider's own 404")
	require.Equal(t, 16<<10+len(`{"error":{"code":""}}`), seen, "its body is whole")

	_, err = c.Do(t.Context(), http.MethodGet, "/anything", "", nil)
	require.ErrorIs(t, err, ErrNoProvider)
	require.NotErrorAs(t, err, &e, "it is not the provider's last word")
}

func TestAPortNeedsMutualTLS(t *testing.T) {
	_, err := New("127.0.0.1:1", nil, 1)
	require.ErrorContains(t, err, "mutual TLS")
}
