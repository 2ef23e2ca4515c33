package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/datadir"
)

func TestLedgerExport(t *testing.T) {
	data, out := t.TempDir(), filepath.Join(t.TempDir(), "a", "folder")
	t.Setenv("MODELGATE_LEDGER", "")
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = execute(t.Context(), append([]string{"ledger", "export", "--log-level", "error"}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, _, said := run("-o", out, "--since", "7d")
	require.Equal(t, exitUsage, code)
	require.Contains(t, said, "give --data or --ledger")
	code, _, said = run("-o", out, "--since", "7d", "--data", data)
	require.Equal(t, exitFailed, code)
	require.Contains(t, said, "opening the ledger")
	code, _, _ = run("-o", out, "--since", "yesterday", "--data", data)
	require.Equal(t, exitUsage, code)
	left, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, left, "it makes no ledger")
	require.NoDirExists(t, out)

	book, err := ledger.Open(t.Context(), datadir.Ledger(data), zap.NewNop())
	require.NoError(t, err)
	for id, at := range map[string]string{"a": "2026-03-09T23:59:59.999Z", "b": "2026-03-10T00:00:00Z",
		"c": "2026-03-10T12:00:00Z", "d": "2026-03-11T00:00:00Z"} {
		start, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		require.NoError(t, book.Record(t.Context(), []*ledgerv1.Record{{Id: id, Start: timestamppb.New(start), Key: "key_1",
			Outcome: "finished", Status: 200, CostNanoUsd: 7}}))
	}
	code, stdout, said := run("-o", out, "--since", "2026-03-09", "--until", "2026-03-11", "--data", data)
	require.Equal(t, exitOK, code, said)
	require.Equal(t, "exported 3 requests to 2 files in "+out+"\n", stdout, "while the gateway runs")
	require.NoError(t, book.Close())
	for name, want := range map[string][]string{"requests-2026-03-09-0001.parquet": {"a"},
		"requests-2026-03-10-0001.parquet": {"b", "c"}} {
		body, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		f, err := segment.OpenBytes(name, body)
		require.NoError(t, err)
		rows, err := f.Rows(0)
		require.NoError(t, err)
		var got []string
		for _, r := range rows {
			got = append(got, r.ID)
			require.Equal(t, int64(7), r.Cost)
		}
		require.Equal(t, want, got)
	}
	code, _, said = run("-o", out, "--since", "2026-03-10", "--until", "2026-03-11", "--data", data)
	require.Equal(t, exitFailed, code)
	require.Contains(t, said, "requests-2026-03-10-0001.parquet: file already exists")
	files, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, files, 2)
}
