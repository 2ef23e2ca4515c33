package ledger_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/internal/testenv"
)

// before is how many records a ledger has when BenchmarkRecord begins to measure.
const before = 20_000

// BenchmarkRecord is the CPU of this process that a record costs, by the size of batches and the number of keys.
// SQLite works in this process, PostgreSQL in its own.
func BenchmarkRecord(b *testing.B) {
	heap := make([]byte, 32<<20) // of a control plane, by which its collector goes
	defer runtime.KeepAlive(heap)
	for _, keys := range []int{1, 20, 1000} {
		b.Run(fmt.Sprintf("sqlite/keys=%d", keys), func(b *testing.B) {
			recordBatches(b, "sqlite://"+filepath.ToSlash(filepath.Join(b.TempDir(), "ledger.db")), keys)
		})
		b.Run(fmt.Sprintf("postgres/keys=%d", keys), func(b *testing.B) { recordBatches(b, pgtest.Start(b), keys) })
	}
}

func recordBatches(b *testing.B, dsn string, keys int) {
	l, s := open(b, dsn), newStream(keys)
	for range before / 1000 {
		keep(b, l, s.records(1000)...)
	}
	for _, size := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			cpu := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				batch := s.records(size)
				begun := testenv.CPU(b)
				b.StartTimer()
				keep(b, l, batch...)
				cpu += testenv.CPU(b) - begun
			}
			b.ReportMetric(float64(cpu.Nanoseconds())/1e3/float64(b.N*size), "cpu-µs/record")
		})
	}
}

// BenchmarkRecordTogether is what a record costs SQLite where several processes of the data plane bring batches of 100
// at once.
func BenchmarkRecordTogether(b *testing.B) {
	const size = 100
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			l, s := open(b, "sqlite://"+filepath.ToSlash(filepath.Join(b.TempDir(), "ledger.db"))), newStream(20)
			for range before / 1000 {
				keep(b, l, s.records(1000)...)
			}
			cpu := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				batch := s.records(callers * size)
				begun := testenv.CPU(b)
				b.StartTimer()
				var calling sync.WaitGroup
				for some := range slices.Chunk(batch, size) {
					calling.Go(func() { keep(b, l, some...) })
				}
				calling.Wait()
				cpu += testenv.CPU(b) - begun
			}
			b.ReportMetric(float64(cpu.Nanoseconds())/1e3/float64(b.N*callers*size), "cpu-µs/record")
		})
	}
}
