package queries

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func TestAProviderRecoversWithServedAttemptsAfterTheLastThatFailed(t *testing.T) {
	minute := func(attempts, failed int64) ledger.Minute { return ledger.Minute{Attempts: attempts, Failed: failed} }
	require.True(t, recovered([]ledger.Minute{minute(50, 50), minute(2, 0), minute(1, 0)}))
	require.False(t, recovered([]ledger.Minute{minute(50, 50), minute(2, 0)}), "too few to tell")
	require.False(t, recovered([]ledger.Minute{minute(3, 0), minute(50, 1)}))
	require.False(t, recovered(nil))
}

func TestWhatIsRefusedOfAKey(t *testing.T) {
	all := refusalsOf([]ledger.Refusal{{Key: "k", By: "key/k limit requests per day", Status: 429, Requests: 9}},
		[]ledger.Refusal{{Key: "k", By: "key/k models", Code: "model_not_found", Status: 404, Requests: 31},
			{Key: "k", By: "request", Code: "model_not_found", Status: 404, Requests: 40},
			{Key: "k", By: "key/k disabled", Code: "invalid_api_key", Status: 401, Requests: 1},
			{Hint: "9896", By: "unknown key", Code: "invalid_api_key", Status: 401, Requests: 2}})
	require.Equal(t, []attention.Refusals{{Key: "k", Known: true, By: "key/k limit requests per day", Requests: 9},
		{Key: "k", Known: true, By: "key/k models", Code: "model_not_found", Requests: 31},
		{Key: "k", Known: true, By: "key/k disabled", Code: "invalid_api_key", Requests: 1},
		{Key: "9896", By: "unknown key", Code: "invalid_api_key", Requests: 2}}, all)
}
