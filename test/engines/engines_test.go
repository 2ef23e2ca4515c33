// Package engines has analytics engines read what the gateway exports, and compares their sums with the ledger's.
//
// The engine is none of ours, and knows only what the Parquet files say of themselves. The sums of the ledger are kept
// while records are written, so they come from another place than the rows.
package engines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/offline"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/internal/usage"
)

// records is how many there are: more than a row group has, and more than a file on one of the days.
const records = 70_000

func TestAnEngineSumsUpAsTheLedgerDoes(t *testing.T) {
	python := filepath.Join(testenv.Root(t), ".cache", "engines-python", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		testenv.Missing(t, "DuckDB", "test/engines/setup.sh")
	}
	dir := t.TempDir()
	dsn := "sqlite://" + filepath.ToSlash(filepath.Join(dir, "ledger.db"))
	l, err := ledger.Open(t.Context(), dsn, zap.NewNop())
	require.NoError(t, err)
	start := time.Now().UTC().AddDate(0, 0, -2).Truncate(24 * time.Hour)
	random := rand.New(rand.NewPCG(1, 1))
	var batch []*ledgerv1.Record
	for i := range records {
		batch = append(batch, record(random, i, start))
	}
	require.NoError(t, l.Record(t.Context(), batch))
	want, err := l.Rows(t.Context(), ledger.Query{From: start.AddDate(0, 0, -1), To: start.AddDate(0, 0, 2),
		Width:   time.Hour,
		GroupBy: []string{"api_key_id", "model", "provider", "batch"}})
	require.NoError(t, err)
	require.NoError(t, l.Close())

	out := filepath.Join(dir, "export")
	export := offline.LedgerExportCmd{Output: out, Since: start.AddDate(0, 0, -1).Format(time.RFC3339), Until: "0s",
		Ledger: dsn}
	var said bytes.Buffer
	require.NoError(t, export.Run(t.Context(), &said, zap.NewNop()))
	require.Equal(t, fmt.Sprintf("exported %d requests to 3 files in %s\n", records, out), said.String())
	require.ErrorIs(t, export.Run(t.Context(), &said, zap.NewNop()), os.ErrExist, "it does not replace files")

	var got struct {
		Sums     [][]any
		Attempts [][]any
		Limits   [][]any
		Found    [][]any
		One      [][]any
		Nulls    [][]any
		Fields   map[string]int
	}
	cmd := exec.CommandContext(t.Context(), python, "sums.py", filepath.ToSlash(out)+"/*.parquet",
		strings.Join(usage.Columns(), ","))
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	require.NoError(t, err)
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	require.NoError(t, numbers.Decode(&got))

	sums := map[string]bool{}
	for _, row := range got.Sums {
		sums[fmt.Sprint(row)] = true
	}
	require.Len(t, sums, len(want))
	for _, row := range want {
		values := []any{row.Start.UTC().Format(time.RFC3339)}
		for _, x := range row.Group {
			values = append(values, x)
		}
		values = append(values, row.Requests)
		for _, n := range row.Used {
			values = append(values, n)
		}
		require.Contains(t, sums, fmt.Sprint(append(values, int64(row.Cost))))
	}
	require.Equal(t, fmt.Sprint([][]any{{"a", records / 10, records / 10}, {"b", records / 10, 0}}),
		fmt.Sprint(got.Attempts))
	require.Equal(t, fmt.Sprint([][]any{{"budget key/key_1 day", 3 * records / 7},
		{"key/key_1 limit requests per minute", records / 7}}), fmt.Sprint(got.Limits))
	require.Equal(t, fmt.Sprint([][]any{{records / 7}}), fmt.Sprint(got.Found))
	require.Equal(t, fmt.Sprint([][]any{{0}}), fmt.Sprint(got.Nulls))
	require.Len(t, got.One, 1)
	require.Equal(t, []any{"30313233343536373839616263646566", true}, []any{got.One[0][1], got.One[0][3]})
	require.Equal(t, map[string]int{"id": 1, "started_at": 3, "cost_usd": 24, "cache_write_hour_tokens": 109,
		"attempt_list": 50, "rule": 45}, got.Fields)
}

// record returns a record as a gateway writes it: of two days, most of the second.
func record(r *rand.Rand, i int, start time.Time) *ledgerv1.Record {
	at := start.Add(time.Duration(r.Int64N(int64(24 * time.Hour))))
	if i%100 == 0 {
		at = at.AddDate(0, 0, -1)
	}
	x := &ledgerv1.Record{Id: fmt.Sprint("record-", i), RequestId: fmt.Sprint("request-", i), Start: timestamppb.New(at),
		End: timestamppb.New(at.Add(time.Second)), Key: fmt.Sprint("key_", r.IntN(20)), Organization: "acme", User: "ü",
		Operation: "chat/completions", Model: fmt.Sprint("model-", r.IntN(5)), Provider: fmt.Sprint("p", r.IntN(2)),
		Attempts: 1, Status: 200, Outcome: []string{"finished", "finished", "failed", "rejected"}[r.IntN(4)],
		Batch: r.IntN(3) == 0, Requests: r.Int64N(3), CostNanoUsd: r.Int64N(1e12), Priced: true, Stream: i%2 == 1}
	for k := range usage.Kinds {
		*k.In(x) = r.Int64N(1e6)
	}
	if i%10 == 0 {
		x.Attempts = 2
		x.AttemptList = []*ledgerv1.Attempt{{Kind: "first", Provider: "a", Error: "status 500", Status: 500},
			{Kind: "fallback", Provider: "b", Status: 200}}
	}
	if i%7 == 0 {
		x.Details = &ledgerv1.Details{TraceId: []byte("0123456789abcdef"), Guards: []string{"mask pii in the request: 1"},
			Rules:   []string{"key/key_1 limit requests per minute", "budget key/key_1 day"},
			Settled: &ledgerv1.Amounts{Requests: 1, CostNanoUsd: 3}}
	}
	return x
}
