package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestRequestsSayWhyOneFailed lists the request log, and tells of a request all that is known.
func TestRequestsSayWhyOneFailed(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.requests = []adminapi.Exchange{{ID: "x1", RequestID: "r1", Start: time.Unix(0, 0), DurationMS: 1500, Key: "key_1",
		KeyName: "billing\x1b[2J", Operation: "chat.completions", Model: "smart", Provider: "b", Upstream: "m2", Attempts: 2,
		Status: 502, Outcome: "failed", ErrorCode: "upstream_error", CostUSD: "0.02", Priced: true,
		AttemptList: []adminapi.Attempt{
			{Kind: "first", Provider: "a", Model: "m1", Error: "connect: refused", DurationMS: 20},
			{Kind: "fallback", Provider: "b", Model: "m2", Status: 500, Error: "status 500", StartMS: 21, DurationMS: 1400}},
		Detail: &adminapi.ExchangeDetail{TraceID: "t1", Plan: []string{"a/m1", "b/m2"}, Limits: []adminapi.LimitHeld{
			{Rule: "key/key_1 limit requests per minute", Reserved: "1", Settled: "1"}}},
		Cost: &adminapi.CostSheet{Lines: []adminapi.CostLine{{Part: "input", Count: 12, PriceUSD: "3", CostUSD: "0.02"}}}},
		{ID: "x2", RequestID: "r2", Outcome: "rejected", Status: 401, KeyHint: "wxyz"}, {ID: "x3", RequestID: "r3"}}
	out, _ := c.run(t, exitOK, "requests", "--outcome", "error", "--key", "billing", "--min-duration", "1500ms")
	require.Equal(t, 4, strings.Count(out, "\n"), "over two pages")
	require.Contains(t, out, "502 failed upstream_error")
	require.Contains(t, out, "unknown, ends with wxyz")
	require.NotContains(t, out, "\x1b", "nothing that a terminal obeys")
	for _, part := range []string{"outcome=error", "key_name=billing", "min_duration_ms=1500", "start="} {
		require.Contains(t, f.asked[0], part)
	}
	require.NotContains(t, out, "--limit shows more")
	out, _ = c.run(t, exitOK, "requests", "--limit", "2")
	require.Contains(t, out, "These are the newest 2. --limit shows more.")
	out, _ = c.run(t, exitOK, "requests", "--limit", "2", "-o", "json")
	require.Equal(t, 2, strings.Count(out, `"request_id"`))

	f.asked, f.requests = nil, f.requests[:1]
	out, _ = c.run(t, exitOK, "requests", "r1")
	require.Contains(t, f.asked[0], "request_id=r1")
	require.NotContains(t, f.asked[0], "start=", "of any time")
	for _, part := range []string{"Plan:          a/m1, b/m2\n", "connect: refused", "status 500", "Trace:         t1\n",
		"key/key_1 limit requests per minute", "total", "0.02"} {
		require.Contains(t, out, part)
	}
	f.requests = nil
	f.objects = []configv1.Object{&configv1.Provider{Name: "echo", Models: []string{"bare"}},
		&configv1.Model{Name: "smart"}, &configv1.Organization{Name: "acme"},
		&configv1.Key{Name: "key_1", DisplayName: "billing"}}
	for _, filter := range [][2]string{{"--provider", "ecko"}, {"--organization", "acne"}, {"--model", "smrt"},
		{"--model", "ecko/any"}, {"--key", "biling"}} {
		for _, command := range []string{"requests", "usage", "findings"} {
			if filter[0] == "--provider" && command != "requests" || filter[0] == "--key" && command != "usage" {
				continue // it has no such filter, or looks for words, which the fake does not
			}
			_, said := c.run(t, exitUsage, command, filter[0], filter[1])
			require.Contains(t, said, filter[1], "what is unknown is named")
		}
	}
	for _, filter := range [][2]string{{"--provider", "echo"}, {"--organization", "acme"}, {"--model", "smart"},
		{"--model", "echo/any"}, {"--model", "bare"}, {"--key", "billing"}} {
		out, _ = c.run(t, exitOK, "requests", filter[0], filter[1])
		require.NotContains(t, out, "there is no")
	}
	_, errOut := c.run(t, exitFailed, "requests", "r9")
	require.Contains(t, errOut, `no request "r9"`)
	c.run(t, exitUsage, "requests", "--limit", "0")
}
