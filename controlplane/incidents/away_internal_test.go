package incidents

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// TestALedgerThatWasAwayHasAnIncident although nothing could be kept while it was.
func TestALedgerThatWasAwayHasAnIncident(t *testing.T) {
	g := newGateway(t)
	k := g.keeper()
	well := k.options.Store
	require.NoError(t, k.judge(t.Context()))
	began := g.now
	away := newGateway(t)
	require.NoError(t, away.book.Database().Read.Close())
	k.options.Store, g.facts.Ledger = NewStore(away.book.Database()), "it is away."
	for range 3 {
		require.Error(t, k.judge(t.Context()))
		g.now = g.now.Add(judgeEvery)
	}
	k.options.Store, g.facts.Ledger = well, ""
	back := g.now
	for range 6 {
		require.NoError(t, k.judge(t.Context()))
		g.now = g.now.Add(judgeEvery)
	}
	all := g.incidents(true)
	require.Len(t, all, 1)
	i := all[0]
	require.Equal(t, []any{"ledger", adminapi.IncidentClosed, began, back},
		[]any{i.Subject, i.State, i.Since, *i.Until})
	require.Len(t, i.Transitions, 2)
}
