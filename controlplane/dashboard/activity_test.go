package dashboard_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestThePagesOfObjectsBeginWithTheirUse(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	key := fill(t, b, w)
	until := time.Now().Add(time.Minute)
	window := adminapi.HealthWindow{Attempts: 20, Failed: 5, RateLimited: 4, FirstByte: adminapi.Percentiles{P50: 120,
		P95: 900}}
	b.ledger.health = []adminapi.ProviderHealth{{Provider: "echo", State: adminapi.ProviderCooling, Last24Hours: window,
		CoolingUntil: &until, LastError: "429 rate_limit_exceeded"}}
	var asked url.Values
	b.ledger.series = func(q url.Values) adminapi.Series {
		asked = q
		totals := adminapi.Totals{Requests: 7, Errors: 2, CostUSD: "0.5"}
		return adminapi.Series{Totals: totals, Groups: []adminapi.SeriesGroup{{Name: "gpt", Totals: totals}}}
	}
	for path, wants := range map[string][4]string{
		"/providers/echo":       {"provider", "echo", "model", "Models"},
		"/models/team/fast":     {"model", "team/fast", "key", "Keys"},
		"/organizations/acme":   {"organization", "acme", "key", "Keys"},
		"/projects/acme/search": {"project", "acme/search", "key", "Keys"},
		key:                     {"key", "", "model", "Models"},
	} {
		p := w.get(path + "?range=7d")
		require.Equal(t, 200, p.status, path)
		require.Equal(t, wants[2], asked.Get("by"), path)
		require.Contains(t, asked.Get(wants[0]), wants[1], path)
		require.NotEmpty(t, asked.Get(wants[0]), path)
		says := text(p.body)
		for _, part := range []string{wants[3], "gpt", "$0.5000", "29 % of requests", "last 7 days"} {
			require.Contains(t, says, part, path)
		}
	}
	says := text(w.get("/providers/echo").body)
	for _, part := range []string{"cooling", "20 attempts, 5 failed, 4 of them with 429", "First byte 120 ms", "no attempts",
		"429 rate_limit_exceeded"} {
		require.Contains(t, says, part)
	}
}
