package hostile

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// Through a Route a client cannot have the vendor's server do something else than Envoy and the gateway have seen, and
// a vendor cannot send the client to another place.
func TestHeadersThatLeadElsewhereDoNotPassARoute(t *testing.T) {
	t.Parallel()
	overrides := []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL",
		"X-Rewrite-URL", "X-Amz-Target", "X-Forwarded-Host", "X-Host"}
	leading := []string{"Location", "Content-Location", "Refresh", "Link", "Set-Cookie", "Alt-Svc", "Operation-Location",
		"Strict-Transport-Security", "Www-Authenticate", "X-Accel-Redirect", "Content-Security-Policy",
		"Access-Control-Allow-Origin", "Clear-Site-Data"}
	got := make(chan http.Header, 10)
	vendor := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		for _, name := range leading {
			w.Header().Set(name, "https://evil.test/")
		}
		w.Header().Set("X-Custom", "kept")
		if strings.HasSuffix(r.URL.Path, "/moved") {
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
		_, _ = io.WriteString(w, "{}")
	})
	g := harness.Run(t, t.TempDir(), "--concurrency", "1")
	harness.Must(t, fmt.Sprintf(`kind: Provider
name: v
vendor: openai
endpoint: %s
credential: {value: x}
---
kind: Route
name: plain
path_prefix: /plain/
provider: v
---
kind: Route
name: named
path_prefix: /named/
provider: v
request_headers: [x-http-method-override, authorization, x-forwarded-host]
`, vendor.URL), "config", "apply", "--data", g.Dir, "-f", "-")
	client := *g.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, passes := range map[string][]string{"/plain/x": nil, "/plain/moved": nil,
		"/named/x": {"X-HTTP-Method-Override"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path, strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+g.Key)
		r.Header.Set("X-Custom", "kept")
		for _, name := range overrides {
			r.Header.Set(name, "DELETE")
		}
		answer, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Less(t, answer.StatusCode, 400)
		sent := <-got
		require.Equal(t, "kept", sent.Get("X-Custom"))
		require.Equal(t, "Bearer x", sent.Get("Authorization"))
		for _, name := range overrides {
			want := ""
			if len(passes) > 0 && name == passes[0] {
				want = "DELETE"
			}
			require.Equal(t, want, sent.Get(name), "%s %s", path, name)
		}
		require.Equal(t, "kept", answer.Header.Get("X-Custom"))
		for _, name := range leading {
			require.Empty(t, answer.Header.Values(name), "%s %s", path, name)
		}
	}
}
