package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func chained(sequence int64, at time.Time) adminapi.AuditEntry {
	return adminapi.AuditEntry{ID: fmt.Sprintf("%04d", sequence), At: at, Actor: "ann", Action: "update",
		Sequence: sequence, Previous: fmt.Sprint("hash ", sequence-1), Hash: fmt.Sprint("hash ", sequence)}
}

func sequences(t *testing.T, l *ledger.Ledger) (all []int64) {
	t.Helper()
	for after := ""; ; {
		page, err := l.AuditAfter(t.Context(), after, 2)
		require.NoError(t, err)
		for _, e := range page {
			all = append(all, e.Sequence)
			after = e.ID
		}
		if len(page) < 2 {
			return all
		}
	}
}

func TestTheChainOfTheAuditLogIsRead(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		oldest, newest, err := l.AuditEnds(t.Context())
		require.NoError(t, err)
		require.Empty(t, oldest)
		require.Empty(t, newest)
		older := adminapi.AuditEntry{ID: "00000", At: noon, Actor: "ann", Action: "update"}
		require.NoError(t, l.AppendAudit(t.Context(), []adminapi.AuditEntry{chained(3, noon), chained(2, noon), older,
			chained(4, noon)}))
		require.Equal(t, []int64{0, 2, 3, 4}, sequences(t, l))
		oldest, newest, err = l.AuditEnds(t.Context())
		require.NoError(t, err)
		require.Equal(t, chained(2, noon), oldest)
		require.Equal(t, chained(4, noon), newest)
		page, err := l.Audit(t.Context(), adminapi.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, []adminapi.AuditEntry{chained(4, noon)}, page.Items)
	})
}

// Clocks of control planes differ: what expires of the chain is a beginning of it all the same.
func TestPruneLeavesAChainWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		expired := noon.AddDate(0, 0, -401)
		older := adminapi.AuditEntry{ID: "00000", At: expired, Actor: "ann", Action: "update"}
		require.NoError(t, l.AppendAudit(t.Context(), []adminapi.AuditEntry{older, chained(1, expired),
			chained(2, expired), chained(3, noon), chained(4, expired), chained(5, noon)}))
		_, err := l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		require.Equal(t, []int64{3, 4, 5}, sequences(t, l))
	})
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		expired := noon.AddDate(0, 0, -401)
		require.NoError(t, l.AppendAudit(t.Context(), []adminapi.AuditEntry{chained(1, expired), chained(2, expired)}))
		_, err := l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		require.Equal(t, []int64{2}, sequences(t, l), "the newest shows that none is missing after it")
	})
}
