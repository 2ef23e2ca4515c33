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
