package queries

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger"
)

func TestAProviderRecoversWithServedAttemptsAfterTheLastThatFailed(t *testing.T) {
	minute := func(attempts, failed int64) ledger.Minute { return ledger.Minute{Attempts: attempts, Failed: failed} }
	require.True(t, recovered([]ledger.Minute{minute(50, 50), minute(2, 0), minute(1, 0)}))
	require.False(t, recovered([]ledger.Minute{minute(50, 50), minute(2, 0)}), "too few to tell")
	require.False(t, recovered([]ledger.Minute{minute(3, 0), minute(50, 1)}))
	require.False(t, recovered(nil))
}
