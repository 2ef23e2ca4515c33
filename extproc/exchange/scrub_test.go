package exchange

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
)

const routeSecret = "vk/aaaaaaaaaaaaaaaaaaab+c" // of a form that no pattern knows

// answered is a Route's exchange whose provider has answered with a status and headers.
func answered(t *testing.T, status string, h ...Header) (*Exchange, Reply) {
	t.Helper()
	x, request := routed(t, bodySigner(false), &configv1.Key{Name: "k"})
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: x.c.Config.Providers["p"].Config,
		Credential: routeSecret}, x.c.Config.Providers["p"].Vendor)
	require.NoError(t, err)
	x.c.Config.Providers["p"] = p
	request = append(request, Header{Name: "accept-encoding", Value: "gzip"})
	reply := x.RequestHeaders(context.Background(), request, true)
	require.Nil(t, reply.Immediate)
	require.Contains(t, reply.Remove, "accept-encoding", "what is compressed cannot be searched")
	return x, x.ResponseHeaders(append(Headers{{Name: ":status", Value: status}}, h...),
		Facts{Cluster: "p/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
}

func TestARoutesErrorDoesNotRepeatTheCredential(t *testing.T) {
	for status, outcome := range map[string]metering.Outcome{"400": metering.OutcomeRejected,
		"401": metering.OutcomeFailed, "500": metering.OutcomeFailed, "302": metering.OutcomeFinished} {
		x, reply := answered(t, status, Header{Name: "content-length", Value: "999"},
			Header{Name: "www-authenticate", Value: "Bearer " + routeSecret}, Header{Name: "location", Value: "/?key=" +
				url.QueryEscape(routeSecret)}, Header{Name: "x-request-id", Value: routeSecret})
		require.Equal(t, Streamed, reply.ResponseBody, status)
		for _, name := range []string{"content-length", "www-authenticate", "location"} {
			require.Contains(t, reply.Remove, name)
		}
		for _, set := range reply.Set {
			require.NotContains(t, set.Value, routeSecret)
		}
		body := `{"error":"no such key ` + routeSecret + `","headers":{"authorization":"Basic ` +
			base64.StdEncoding.EncodeToString([]byte(":"+routeSecret)) + `"},"json":"vk\/aaaaaaaaaaaaaaaaaaab+c"}`
		var out []byte
		for piece := range slices.Chunk([]byte(body), 7) {
			part := x.ResponseBody(context.Background(), piece, false)
			require.True(t, part.ReplaceBody)
			out = append(out, part.Body...)
		}
		out = append(out, x.ResponseBody(context.Background(), nil, true).Body...)
		require.Equal(t,
			`{"error":"no such key [redacted]","headers":{"authorization":"Basic [redacted]"},"json":"[redacted]"}`,
			string(out), status)
		record := x.Close()
		require.Equal(t, outcome, record.Outcome, status)
		require.False(t, record.Unseen)
	}
}

func TestAnErrorOfARouteThatIsCompressedAnywayIsNotPassed(t *testing.T) {
	x, reply := answered(t, "403", Header{Name: "content-encoding", Value: "gzip"})
	require.NotNil(t, reply.Immediate)
	require.Equal(t, 403, reply.Immediate.Status)
	require.Contains(t, string(reply.Immediate.Body), "upstream_error_encoded")
	require.Equal(t, metering.OutcomeFailed, x.Close().Outcome)
}

func TestASuccessOfARouteIsNotShown(t *testing.T) {
	x, reply := answered(t, "200", Header{Name: "content-encoding", Value: "gzip"})
	require.Equal(t, None, reply.ResponseBody|None)
	require.Nil(t, reply.Immediate)
	require.True(t, x.Close().Unseen)
}

func TestAProviderForgesNoHeaderOfOurs(t *testing.T) {
	forged := []string{"x-modelgate-cost-usd", "x-modelgate-provider", "x-modelgate-anything", "x-envoy-ratelimited",
		"x-ratelimit-limit-requests", "anthropic-ratelimit-tokens-limit",
		"x-upstream-request-id", "server-timing", "set-cookie", "server", "via", "openai-organization",
		"access-control-allow-origin"}
	for _, status := range []string{"200", "429"} {
		var h Headers
		for _, name := range append(forged, "retry-after", "x-should-retry", "content-type", "etag") {
			h = append(h, Header{Name: name, Value: "forged"})
		}
		_, reply := answered(t, status, append(h, Header{Name: "x-request-id", Value: "forged"})...)
		for _, name := range forged {
			if got := reply.Set.Get(name); got == "" {
				require.Contains(t, reply.Remove, name, status)
			}
		}
		require.Equal(t, "p", reply.Set.Get("x-modelgate-provider"))
		for _, name := range []string{"retry-after", "x-should-retry", "content-type", "etag"} {
			require.NotContains(t, reply.Remove, name)
		}
	}
}
