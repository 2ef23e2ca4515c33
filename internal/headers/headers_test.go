package headers_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/headers"
)

func TestWhatARouteForwards(t *testing.T) {
	for _, name := range []string{"content-type", "anthropic-version", "openai-beta", "idempotency-key", "range",
		"x-goog-fieldmask", "prefer", "x-custom", "content-encoding"} {
		require.True(t, headers.ThroughRoute(name, nil), name)
	}
	for _, name := range []string{"x-http-method-override", "x-http-method", "x-method-override", "x-original-method",
		"x-original-url", "x-rewrite-url", "x-original-uri", "x-original-host", "x-amz-target", "http-method-override",
		"x-host", "x-host-override", "soapaction", "x-middleware-subrequest"} {
		require.False(t, headers.ThroughRoute(name, nil), name)
		require.False(t, headers.ThroughRoute(name, []string{"x-other"}), name)
		require.True(t, headers.ThroughRoute(name, []string{"x-other", name}), name)
	}
	for _, name := range []string{"authorization", "cookie", "x-api-key", "x-auth-token", "x-forwarded-host",
		"x-forwarded-prefix", "accept-encoding", "x-modelgate-key", "my-authorization"} {
		require.False(t, headers.ThroughRoute(name, []string{name}), "%s, named or not", name)
	}
	for _, name := range []string{"location", "content-location", "refresh", "set-cookie", "alt-svc", "link",
		"strict-transport-security", "www-authenticate", "access-control-allow-origin", "x-accel-redirect", "x-sendfile",
		"operation-location", "azure-asyncoperation", "x-ratelimit-limit-requests", "x-modelgate-cost-usd", "server",
		"content-security-policy", "clear-site-data", "sourcemap"} {
		require.False(t, headers.BackThroughRoute(name), name)
		require.False(t, headers.ToClient(name), name)
	}
	for _, name := range []string{"content-type", "content-disposition", "content-encoding", "etag", "content-range",
		"retry-after", "x-custom"} {
		require.True(t, headers.BackThroughRoute(name), name)
	}
	require.False(t, headers.ToProvider("x-http-method-override"))
	require.True(t, headers.ToProvider("content-type"))
}

// The document for operators has every row.
func TestTheTableIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/routes.md")
	require.NoError(t, err)
	for _, r := range slices.Concat(headers.Requests()[1:], headers.Answers()[1:]) {
		for _, names := range [][]string{r.Names, prefixed(r.Prefixes, "", "*"), prefixed(r.Suffixes, "*", ""),
			prefixed(r.Parts, "*", "*")} {
			for _, name := range names {
				require.Contains(t, string(text), "`"+name+"`")
			}
		}
		require.True(t, strings.Contains(string(text), r.Why), r.Why)
	}
}

func prefixed(names []string, before, after string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = before + n + after
	}
	return out
}
