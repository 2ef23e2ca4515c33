package usage_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARecordMayEndUnderAnotherID is a line of a batch: it begins with the id of its exchange, and is charged once
// under its own.
func TestARecordMayEndUnderAnotherID(t *testing.T) {
	dir, k := t.TempDir(), newKeeper()
	s := open(t, options(dir))
	s.Begin(rec("x-1", 5))
	s.Begin(rec("x-2", 6))
	s.Begin(rec("x-3", 7))
	end := func(exchange string, tokens int64) {
		r := rec("batch/7", tokens)
		r.Exchange = exchange
		s.End(r)
	}
	end("x-1", 50)
	require.NoError(t, s.Close())
	s = open(t, options(dir)) // x-2 and x-3 have not ended: their process was killed
	flush(s, k)
	end("x-4", 60)
	flush(s, k)
	require.Len(t, k.records, 3)
	require.EqualValues(t, 50, k.records["batch/7"].GetOutputTokens(), "the line is charged once")
	require.Equal(t, 1, k.twice)
	for _, id := range []string{"x-2", "x-3"} {
		require.Equal(t, "interrupted", k.records[id].GetOutcome())
	}
	require.NotContains(t, k.records, "x-1")
}
