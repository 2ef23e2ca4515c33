package queries

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
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

func TestRefusalsAreCountedByKeyAndReason(t *testing.T) {
	var all []attention.Refusals
	for _, e := range []adminapi.Exchange{{Key: "k", ErrorCode: "model_not_allowed"},
		{Key: "k", ErrorCode: "model_not_allowed", Requests: 30}, {Key: "k", ErrorCode: "invalid_api_key"},
		{KeyHint: "9896", ErrorCode: "invalid_api_key", Requests: 2}} {
		all = noteRefusal(all, &e)
	}
	require.Equal(t, []attention.Refusals{{Key: "k", Known: true, Code: "model_not_allowed", Requests: 31},
		{Key: "k", Known: true, Code: "invalid_api_key", Requests: 1},
		{Key: "9896", Code: "invalid_api_key", Requests: 2}}, all)
}
