package segment_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// noon is when the rows of tests begin, in microseconds.
const noon = 1_773_144_000_000_000

// some returns rows in no order: most as usual, some with everything that a row may have.
func some(seed uint64, n int) []segment.Row {
	r := rand.New(rand.NewPCG(seed, 1))
	rows := make([]segment.Row, n)
	for i := range rows {
		k := r.IntN(200)
		x := &rows[i]
		*x = segment.Row{ID: fmt.Sprintf("%012x-%d", seed, i), RequestID: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()),
			StartedAt: noon + r.Int64N(int64(n))*1000, DurationMS: r.Int64N(20_000), FirstByteMS: r.Int64N(900),
			Key: fmt.Sprint("key_", k), Organization: fmt.Sprint("org", k%20), Project: fmt.Sprint("p", k%60),
			User: fmt.Sprint("user-", r.IntN(5000)), Operation: "chat/completions", Model: fmt.Sprint("gpt-", k%12),
			Provider: fmt.Sprint("provider", k%8), UpstreamModel: fmt.Sprint("gpt-2026-", k%12), Attempts: 1, Status: 200,
			Requests: 1, Outcome: "finished", Cost: r.Int64N(1e9), PriceVersion: "0123456789ab", Priced: true,
			Stream: r.IntN(2) == 0, TraceID: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())}
		x.Used[usage.InputTokens], x.Used[usage.OutputTokens] = r.Int64N(30_000), r.Int64N(1000)
		x.Limits = []segment.Limit{{Rule: "key/" + x.Key + " limit requests per minute", Reserved: 1, Settled: 1}}
		switch r.IntN(50) {
		case 0:
			x.Status, x.Outcome, x.ErrorCode, x.Attempts = 502, "failed", "provider_error", 2
			x.AttemptList = []segment.Attempt{{Kind: "first", Provider: "a", Status: 500, Error: "status 500", DurationMS: 7},
				{Kind: "fallback", Provider: "b", StartMS: 9, CoolMS: 30_000}}
			x.Plan = []string{"a/one", "b/two"}
		case 1:
			x.Status, x.Outcome, x.RefusedBy = 429, "rejected", "key/"+x.Key+" limit requests per minute"
		case 2:
			x.Guards = []string{"mask pii/email in the request: 2", "observe pii/name in the answer: 1"}
			x.Estimated, x.Batch, x.Fees, x.Cache, x.Policy, x.Message = true, true, 7, "hit faq", "office/cheap", "no"
			x.Used[usage.OutputImageTokens], x.UpstreamID, x.KeyHint = 3, "req_ü", "abcd"
		}
	}
	return rows
}

func encode(t testing.TB, rows []segment.Row) segment.Segment {
	t.Helper()
	body, summary, err := segment.NewEncoder().Encode(rows)
	require.NoError(t, err)
	return segment.Segment{Summary: summary, Open: func() (*segment.File, error) { return segment.OpenBytes("s", body) }}
}

// newest returns rows in the order of a search.
func newest(rows []segment.Row) []segment.Row {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b segment.Row) int {
		return cmp.Or(cmp.Compare(b.StartedAt, a.StartedAt), strings.Compare(b.ID, a.ID))
	})
	return rows
}

func TestRowsComeBack(t *testing.T) {
	encoder := segment.NewEncoder()
	for _, n := range []int{1, 2, 100, segment.GroupRows, 2*segment.GroupRows + 1} {
		rows := some(uint64(n), n)
		body, summary, err := encoder.Encode(rows)
		require.NoError(t, err)
		f, err := segment.OpenBytes("s", body)
		require.NoError(t, err)
		var got []segment.Row
		for g := range f.Groups() {
			some, err := f.Rows(g)
			require.NoError(t, err)
			got = append(got, some...)
		}
		want := newest(rows)
		slices.Reverse(want)
		require.Equal(t, want, got)
		require.Equal(t, n, summary.Rows)
		require.Equal(t, want[0].StartedAt, summary.From)
		require.Equal(t, want[n-1].StartedAt, summary.To)
		again, err := f.Summary()
		require.NoError(t, err)
		require.Equal(t, summary, again)
		parsed, err := segment.ParseSummary(summary.Append(nil))
		require.NoError(t, err)
		require.Equal(t, summary, parsed)
	}
	_, _, err := encoder.Encode(nil)
	require.Error(t, err)
}
