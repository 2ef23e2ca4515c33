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

func TestTenantsSeeTheirPartOfTheAuditLog(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		entry := func(sequence int64, at time.Time, views ...adminapi.AuditTenant) adminapi.AuditEntry {
			e := chained(sequence, at)
			e.Tenants = views
			return e
		}
		expired := noon.AddDate(0, 0, -401)
		own := adminapi.AuditTenant{Tenant: "own", Inside: true}
		part := adminapi.AuditTenant{Tenant: "own", Partial: true, Diff: "+ mine\x00", Action: "join"}
		entries := []adminapi.AuditEntry{entry(1, expired, own), entry(2, noon, own,
			adminapi.AuditTenant{Tenant: "own/a"}), entry(3, noon, part), entry(4, noon),
			entry(5, noon, adminapi.AuditTenant{Tenant: "other"})}
		for range 2 { // as often as it likes
			require.NoError(t, l.AppendAudit(t.Context(), entries))
		}
		seen := func(filters ...string) (all []string) {
			page, err := l.Audit(t.Context(), asked(append([]string{"tenant", "own"}, filters...)...))
			require.NoError(t, err)
			for _, e := range page.Items {
				shown := e.For(e.Tenants[0])
				all = append(all, fmt.Sprint(e.ID, " ", shown.Actor, " ", shown.Action, " ", shown.Diff))
			}
			return all
		}
		require.Equal(t, []string{"0003 (outside) join + mine", "0002 ann update ", "0001 ann update "}, seen())
		require.Len(t, seen("action", "update"), 3, "as it is")
		require.Len(t, seen("action", "update", "as", "own"), 2, "as they see it")
		require.Len(t, seen("actor", "ann", "as", "own"), 2)
		require.Len(t, seen("actor", "ann"), 3)
		page, err := l.Audit(t.Context(), adminapi.ListOptions{Limit: 1, After: "0003",
			Filters: map[string]string{"tenant": "own"}})
		require.NoError(t, err)
		require.Equal(t, "0002", page.Next)
		require.Len(t, page.Items, 1)
		_, err = l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		require.Len(t, seen(), 2)
		page, err = l.Audit(t.Context(), asked())
		require.NoError(t, err)
		require.Equal(t, chained(5, noon), page.Items[0], "nobody else gets views")
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
