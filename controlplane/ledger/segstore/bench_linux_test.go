package segstore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/testenv"
)

// BenchmarkAdd is the CPU that a record costs that becomes part of a segment in SQLite, by the size of batches.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			db := &sqldb.DB{Now: time.Now}
			require.NoError(b, db.OpenSQLite(filepath.Join(b.TempDir(), "ledger.db")))
			defer db.Close()
			for _, statement := range append(segstore.Tables(false), segstore.Tallied) {
				_, err := db.Write.ExecContext(b.Context(), statement)
				require.NoError(b, err)
			}
			s, all, begun := segstore.New(db), rows(0, n), testenv.CPU(b)
			for b.Loop() {
				require.NoError(b, add(b.Context(), db, s, all))
			}
			b.ReportMetric(float64((testenv.CPU(b)-begun).Nanoseconds())/1e3/float64(b.N*n), "cpu-µs/record")
		})
	}
}
