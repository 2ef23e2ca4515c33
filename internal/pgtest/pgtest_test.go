package pgtest_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	for range 2 {
		db, err := sql.Open("pgx", pgtest.Start(t))
		require.NoError(t, err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), "CREATE TABLE a (b INT)")
		require.NoError(t, err)
	}
}
