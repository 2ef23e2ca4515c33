package segment_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/testenv"
)

// BenchmarkEncode is what a record costs as a row of a segment, by how many there are in one.
func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{100, 1000, 65_536} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			rows, encoder, size := usual(1, n), segment.NewEncoder(), 0
			b.ReportAllocs()
			begun := testenv.CPU(b)
			for b.Loop() {
				body, summary, err := encoder.Encode(rows)
				require.NoError(b, err)
				size = len(body) + len(summary.Append(nil))
			}
			b.ReportMetric(float64((testenv.CPU(b)-begun).Nanoseconds())/1e3/float64(b.N*n), "cpu-µs/record")
			b.ReportMetric(float64(size)/float64(n), "bytes/record")
		})
	}
}

// usual returns rows as a gateway writes them: nothing else than is usual, in about the order of their time.
func usual(seed uint64, n int) []segment.Row {
	rows := some(seed, n)
	for i := range rows {
		rows[i].StartedAt = noon + int64(seed)*int64(n)*200 + int64(i^7)*200
	}
	return rows
}

// segments is how many the searches are measured with: ten million rows.
const segments = 152

// BenchmarkSearch is how long searches of ten million rows take, with the summaries in memory and the segments on the
// disk. It takes a minute to write them.
func BenchmarkSearch(b *testing.B) {
	all, size := onDisk(b), int64(0)
	for _, s := range all {
		size += s.Summary.Bytes
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.Logf("%d MB on the disk, %d MB of heap", size>>20, m.HeapAlloc>>20)
	var shown []segment.Column // on a page of the request log
	for _, d := range segment.Describe() {
		if d.ID < segment.TraceID || d.ID > segment.AttemptList+9 {
			shown = append(shown, d.ID)
		}
	}
	day := int64(24 * time.Hour / time.Microsecond)
	for _, c := range []struct {
		name string
		segment.Query
	}{
		{"newest", segment.Query{}},
		{"an id", segment.Query{Where: ofID("000000000020-77")}},
		{"an id that there is not", segment.Query{Where: ofID("none")}},
		{"a key", segment.Query{Where: segment.Equal(segment.Key, "key_7")}},
		{"a rare key", segment.Query{Where: segment.Equal(segment.Key, "rare_7")}},
		{"a user", segment.Query{Where: segment.Equal(segment.User, "user-7")}},
		{"a model", segment.Query{Where: segment.Equal(segment.Model, "gpt-7")}},
		{"a model of an old day", segment.Query{Where: segment.Equal(segment.Model, "gpt-7"), From: noon + 3*day,
			To: noon + 4*day}},
		{"a status", segment.Query{Where: segment.Between(segment.Status, 502, 502)}},
		{"a rare status", segment.Query{Where: segment.Between(segment.Status, 418, 418)}},
		{"a key and a user", segment.Query{Where: segment.All(segment.Equal(segment.Key, "key_7"),
			segment.Equal(segment.User, "user-7"))}},
		{"a key and a user that there are not together", segment.Query{Where: segment.All(
			segment.Equal(segment.Key, "rare_7"), segment.Equal(segment.User, "user-7"))}},
		{"one in a million by cost", segment.Query{Where: segment.Between(segment.Cost, 999_999_000, math.MaxInt64)}},
		{"refused by a beginning", segment.Query{Where: segment.Begins(segment.RefusedBy, "key/key_1")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.Limit, c.Columns = 50, shown
			found, begun := 0, testenv.CPU(b)
			for b.Loop() {
				rows, err := segment.Search(all, c.Query)
				require.NoError(b, err)
				found = len(rows)
			}
			b.ReportMetric(float64(found), "rows")
			b.ReportMetric(float64((testenv.CPU(b)-begun).Microseconds())/1e3/float64(b.N), "cpu-ms/search")
		})
	}
	b.Run("sum of an hour by key", func(b *testing.B) {
		sums := map[string]int64{}
		for b.Loop() {
			hour := segment.Query{From: noon + 3*day, To: noon + 3*day + day/24}
			require.NoError(b, segment.Scan(all, hour, func(p *segment.Part) error {
				keys, err := p.Texts(segment.Key)
				require.NoError(b, err)
				costs, err := p.Numbers(segment.Cost)
				for _, row := range p.Rows {
					sums[keys.At(row)] += costs[row]
				}
				return err
			}))
		}
	})
}

// onDisk returns segments of four weeks.
func onDisk(b *testing.B) (all []segment.Segment) {
	dir, encoder := b.TempDir(), segment.NewEncoder()
	every := int64(28*24*time.Hour/time.Microsecond) / segments / 65_536
	r := rand.New(rand.NewPCG(1, 1))
	for seed := range segments {
		rows := some(uint64(seed), 65_536)
		for i := range rows {
			rows[i].StartedAt = noon + (int64(seed)*65_536+int64(i^7))*every
			if i%100 == 0 {
				rows[i].Key = fmt.Sprint("rare_", r.IntN(100_000))
			}
		}
		body, summary, err := encoder.Encode(rows)
		require.NoError(b, err)
		name := filepath.Join(dir, fmt.Sprint(seed))
		require.NoError(b, os.WriteFile(name, body, 0o600))
		summary, err = segment.ParseSummary(summary.Append(nil))
		require.NoError(b, err)
		size := int64(len(body))
		all = append(all, segment.Segment{Summary: summary, Open: sync.OnceValues(func() (*segment.File, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			b.Cleanup(func() { f.Close() })
			return segment.Open(name, f, size)
		})})
	}
	return all
}
