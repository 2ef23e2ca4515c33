package metering_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/usage"
)

// An answer of a response cache has a name in every sum by provider.
func TestAnAnswerOfTheCacheHasAName(t *testing.T) {
	for result, want := range map[metering.CacheResult]string{metering.CacheHit: usage.ResponseCache,
		metering.CacheShared: usage.ResponseCache, metering.CacheSimilar: usage.ResponseCache, metering.CacheMiss: ""} {
		r := metering.Record{Cache: &metering.Cache{Name: "c", Result: result}}
		require.Equal(t, want, r.Entry().GetProvider(), result)
	}
	r := metering.Record{}
	require.Empty(t, r.Entry().GetProvider(), "a request that failed before")
}

// The ledger reads what a cache did from the text of the record.
func TestWhatACacheDidIsReadFromItsText(t *testing.T) {
	for _, c := range []metering.Cache{
		{Name: "faq", Result: metering.CacheHit, Age: 90 * time.Second, Saved: 1_200_000},
		{Name: "faq", Result: metering.CacheShared}, {Name: "faq", Result: metering.CacheMiss},
		{Name: "faq", Result: metering.CacheSimilar, Saved: 7, Similarity: 0.9871, Compared: "done"},
		{Name: "faq", Result: metering.CacheMiss, Compared: "failed"}, {Name: "faq", Result: metering.CacheBypass},
		{Name: "faq", Result: metering.CacheBypass, Reason: "tools, maybe (0.5 USD saved)"},
	} {
		got, ok := usage.ParseCached(c.Text())
		require.True(t, ok, c.Text())
		require.Equal(t, usage.Cached{Cache: "faq", Result: string(c.Result), Saved: c.Saved}, got, c.Text())
		require.Equal(t, c.Served(), got.Served(), c.Text())
	}
	for _, text := range []string{"", "hit", "hit faq", "hit faq (1 s old, x USD saved)",
		"other faq (1 s old, 1 USD saved)"} {
		_, ok := usage.ParseCached(text)
		require.False(t, ok, text)
	}
}

// A try after which the job service asks again is no request. Its last one is, however it ends.
func TestATryOfTheJobServiceIsNoRequest(t *testing.T) {
	for _, c := range []struct {
		outcome metering.Outcome
		status  int
		err     *openai.Error
		tried   bool
	}{
		{metering.OutcomeFinished, 200, nil, false},
		{metering.OutcomeFailed, 200, nil, true}, // after the headers
		{metering.OutcomeFailed, 502, nil, true},
		{metering.OutcomeRejected, 429, openai.CodeRateLimitExceeded.New("x"), true},
		{metering.OutcomeRejected, 429, openai.CodeInsufficientQuota.New("x"), false},
		{metering.OutcomeRejected, 503, openai.CodeServerIsOverloaded.New("x").Final(), false},
		{metering.OutcomeRejected, 400, nil, false},
		{metering.OutcomeRejected, 409, nil, true},
	} {
		r := metering.Record{Outcome: c.outcome, Status: c.status, Error: c.err, Charge: "batch_1/7", Again: true,
			End: time.Now()}
		require.Equal(t, c.tried, r.Entry().GetTried(), "%+v", c)
		r.Again = false
		require.False(t, r.Entry().GetTried(), "%+v", c)
	}
}
