package ledgertest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/ledgertest"
	"github.com/modelgate/modelgate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// Whichever table an answer comes from, it is the same.
func TestEverySumThatIsFilledAgrees(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { agrees(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "l.db"))) })
	t.Run("postgres", func(t *testing.T) { agrees(t, pgtest.Start(t)) })
}

func agrees(t *testing.T, dsn string) {
	l, err := ledger.Open(t.Context(), dsn, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	end := time.Now()
	ledgertest.Fill(t, dsn, 6_000, end)
	for _, c := range []struct {
		width string
		back  time.Duration
	}{{"1m", 10 * time.Hour}, {"5m", 20 * time.Hour}, {"1h", 48 * time.Hour}, {"1d", 10 * 24 * time.Hour}} {
		sum := func(by string, filters map[string][]string) (requests int64) {
			s, err := l.Series(t.Context(), adminapi.SeriesQuery{Start: end.Add(-c.back), End: end, Width: c.width, By: by,
				Groups: 10_000, Filters: filters}.Values())
			require.NoError(t, err)
			require.NotZero(t, s.Requests, "%s by %s", c.width, by)
			for _, g := range s.Groups {
				requests += g.Requests
			}
			if by == "" {
				return s.Requests
			}
			require.Equal(t, s.Requests, requests, "%s by %s", c.width, by)
			return requests
		}
		all := sum("", nil)
		for _, by := range []string{"model", "provider", "key", "organization", "project", "user"} {
			require.Equal(t, all, sum(by, nil), "%s by %s", c.width, by)
		}
		var users []string
		for i := range ledgertest.Users {
			users = append(users, ledgertest.User(i))
		}
		some := map[string][]string{"user": users[800:860]}
		require.Equal(t, sum("", some), sum("user", some))
	}
}
