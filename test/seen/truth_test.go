package seen

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
)

// fields are those by which usage is grouped and filtered, with what an ask has in each.
func fields() map[string]func(*ask) string {
	return map[string]func(*ask) string{
		"model":        func(a *ask) string { return a.model },
		"provider":     func(a *ask) string { return a.last().provider },
		"key":          func(a *ask) string { return a.client.id },
		"organization": func(a *ask) string { return a.client.organization },
		"user":         func(a *ask) string { return a.user },
		"project": func(a *ask) string {
			if a.client.project == "" {
				return ""
			}
			return a.client.organization + "/" + a.client.project
		},
	}
}

// sum adds up those that are in sums: refused requests are in none.
func (s *scene) sum(of func(*ask) bool) (t adminapi.Totals) {
	cost := int64(0)
	for _, a := range s.asks {
		if a.refuse != "" || !of(a) {
			continue
		}
		t.Requests++
		if a.failed() {
			t.Errors++
		}
		input, cached, output := a.tokens()
		t.InputTokens, t.CachedTokens, t.OutputTokens = t.InputTokens+input, t.CachedTokens+cached, t.OutputTokens+output
		cost += a.cost()
	}
	t.CostUSD = usage.Nano(cost).String()
	return t
}

func everything(*ask) bool { return true }

// groups are the sums by what a field has.
func (s *scene) groups(field string) map[string]adminapi.Totals {
	value, all := fields()[field], map[string]adminapi.Totals{}
	for _, a := range s.asks {
		if a.refuse == "" {
			name := value(a)
			all[name] = s.sum(func(b *ask) bool { return value(b) == name })
		}
	}
	return all
}

// exact is a sum without latencies, which nobody but the gateway measures.
func exact(t adminapi.Totals) adminapi.Totals {
	t.LatencyP50, t.LatencyP95 = 0, 0
	return t
}

// within holds that a percentile is that of times in milliseconds, in order, within the factor that it is stated to
// have.
func within(t *testing.T, what string, times []int64, part float64, got int64) {
	t.Helper()
	if len(times) == 0 {
		require.Zero(t, got, what)
		return
	}
	rank := int(part * float64(len(times)))
	if float64(rank) < part*float64(len(times)) {
		rank++
	}
	truth := float64(times[max(rank-1, 0)])
	require.LessOrEqual(t, float64(got), max(truth*1.6, 10), "%s: percentile %v", what, part)
	require.GreaterOrEqual(t, float64(got+1), min(truth/1.6, 46_000), "%s: percentile %v", what, part)
}
