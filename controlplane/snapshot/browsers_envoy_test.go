package snapshot

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// There is no ext_proc service here: what reaches the place where it would be asked gets a 503.
func TestEnvoyAnswersBrowsersAndOldClients(t *testing.T) {
	t.Parallel()
	in, _ := everyKind(t)
	in.Gateways[0].Cors = &configv1.Cors{Origins: []string{"https://app.example.com", "https://*.dev.example.com"},
		ExposedHeaders: []string{"x-request-id"}}
	in.Gateways = append(in.Gateways, &configv1.Gateway{Name: "closed", Address: "127.0.0.1"})
	e := startEnvoy(t, &in)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	open, err := e.process.AwaitListener(ctx, "gateway/default")
	require.NoError(t, err)
	closed, err := e.process.AwaitListener(ctx, "gateway/closed")
	require.NoError(t, err)

	send := func(client *http.Client, method string, headers ...string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, method, "https://gateway.test/v1/models", nil)
		require.NoError(t, err)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		a, err := client.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, a.Body)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		return a
	}
	preflight := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
		"authorization,content-type", "Origin"}

	t.Run("preflights", func(t *testing.T) {
		for origin, allowed := range map[string]bool{
			"https://app.example.com": true, "https://a.dev.example.com": true,
			"https://app.example.com.evil.test": false, "https://aXdev.example.com": false, "http://app.example.com": false,
		} {
			a := send(e.client(open), http.MethodOptions, append(preflight, origin)...)
			require.Equal(t, 200, a.StatusCode, "before authentication, which is away")
			if !allowed {
				require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"), origin)
				continue
			}
			require.Equal(t, origin, a.Header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "authorization, *", a.Header.Get("Access-Control-Allow-Headers"))
			require.Contains(t, a.Header.Get("Access-Control-Allow-Methods"), "DELETE")
			require.Equal(t, "600", a.Header.Get("Access-Control-Max-Age"))
		}
	})
	t.Run("answers", func(t *testing.T) {
		a := send(e.client(open), http.MethodGet, "Origin", "https://app.example.com")
		require.Equal(t, [3]string{"503 Service Unavailable", "https://app.example.com", "x-request-id"},
			[3]string{a.Status, a.Header.Get("Access-Control-Allow-Origin"), a.Header.Get("Access-Control-Expose-Headers")},
			"also an error")
		require.Empty(t, send(e.client(open), http.MethodGet, "Origin",
			"https://evil.test").Header.Get("Access-Control-Allow-Origin"))
	})
	t.Run("off by default", func(t *testing.T) {
		a := send(e.client(closed), http.MethodOptions, append(preflight, "https://app.example.com")...)
		require.Equal(t, 503, a.StatusCode, "it goes the way of every request")
		require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"))
	})
	t.Run("request ids", func(t *testing.T) {
		for id, kept := range map[string]bool{
			"a.B_1:2-3": true, strings.Repeat("x", 128): true,
			strings.Repeat("x", 129): false, "a b": false, "<script>": false, "a,b": false, "é": false,
		} {
			got := send(e.client(open), http.MethodGet, "X-Request-Id", id).Header.Get("X-Request-Id")
			require.Equal(t, kept, got == id, "%s became %s", id, got)
			require.Regexp(t, `^[A-Za-z0-9._:-]{1,128}$`, got)
		}
		require.Len(t, send(e.client(open), http.MethodGet).Header.Get("X-Request-Id"), 36)
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		c, err := tls.Dial("tcp", open.String(), &tls.Config{RootCAs: e.ca, ServerName: "gateway.test"})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		_, err = io.WriteString(c, "GET /v1/models HTTP/1.0\r\n\r\n")
		require.NoError(t, err)
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		require.Equal(t, 503, a.StatusCode)
		require.Empty(t, a.TransferEncoding)
		require.Contains(t, string(body), "gateway_unavailable")
	})
}
