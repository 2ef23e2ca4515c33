package snapshot

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A flood from one address is answered before anything looks at it. There is no ext_proc service here, so what passes
// gets a 503.
func TestEnvoyLimitsEachAddress(t *testing.T) {
	t.Parallel()
	in, _ := everyKind(t)
	in.Gateways[0].AddressLimit = &configv1.AddressLimit{RequestsPerSecond: 1, Burst: 3}
	e := startEnvoy(t, &in)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	at, err := e.process.AwaitListener(ctx, "gateway/default")
	require.NoError(t, err)
	client := e.client(at)
	from := func(address string) reply {
		return ask(t, client, "GET", "https://gateway.test/v1/models", "", "X-Forwarded-For", address)
	}
	passed, limited := reply{503, "gateway_unavailable"}, reply{429, "rate_limit_exceeded"}
	// flood asks until it is refused, and returns after how many requests: a bucket may fill while it is emptied.
	flood := func(address string) int {
		for n := range 50 {
			if got := from(address); got != passed {
				require.Equal(t, limited, got)
				return n
			}
		}
		return 50
	}
	require.InDelta(t, 4, flood("192.0.2.1"), 1)
	require.InDelta(t, 4, flood("192.0.2.2"), 1, "another address has a bucket of its own")
	require.InDelta(t, 4, flood("2001:db8:0:1::1"), 1)
	require.Equal(t, limited, from("2001:db8:0:1:ffff::2"), "a network is one address")
	require.Equal(t, passed, from("2001:db8:0:2::1"))

	require.Equal(t, http.Header{
		"Retry-After": {"1"}, "Content-Type": {"application/json"},
	}, turnedAway(t, client, "192.0.2.2", func() { flood("192.0.2.2") }))

	// What is changed holds without a change of the listener, which would drain its connections.
	in.Gateways[0].AddressLimit = &configv1.AddressLimit{Disabled: true}
	e.publish(t, 2, in)
	require.Eventually(t, func() bool { return flood("192.0.2.3") == 50 }, 10*time.Second, 20*time.Millisecond)
	in.Gateways[0].AddressLimit = &configv1.AddressLimit{RequestsPerSecond: 1, Burst: 8}
	e.publish(t, 3, in)
	require.Eventually(t, func() bool { return flood("192.0.2.4") < 12 }, 10*time.Second, 20*time.Millisecond)
	require.InDelta(t, 9, flood("192.0.2.5"), 1)
	stats, err := e.process.Admin().Stats(t.Context(),
		"^(listener_manager\\.listener_modified|edge\\.http_local_rate_limit\\.enforced)$")
	require.NoError(t, err)
	require.Zero(t, stats["listener_manager.listener_modified"])
	require.NotZero(t, stats["edge.http_local_rate_limit.enforced"])
	require.Zero(t, e.nacks(t))
	require.Empty(t, e.Status().Errors)
}

// turnedAway returns the headers of a refused request that say what to do, after again has emptied the bucket.
func turnedAway(t *testing.T, client *http.Client, address string, again func()) http.Header {
	t.Helper()
	for range 20 {
		again()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://gateway.test/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("X-Forwarded-For", address)
		answer, err := client.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		answer.Body.Close()
		if answer.StatusCode == http.StatusTooManyRequests {
			require.JSONEq(t,
				`{"error":{"message":"Too many requests from this address. Please retry.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, string(text))
			return http.Header{"Retry-After": answer.Header["Retry-After"], "Content-Type": answer.Header["Content-Type"]}
		}
	}
	t.Fatal("no request was refused")
	return nil
}
