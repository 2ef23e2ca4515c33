package batches

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestATryIsNoAnswer: by when a line was last answered one knows that a batch does not advance.
func TestATryIsNoAnswer(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	var e encounter
	require.EqualValues(t, 10, e.sum(0, at(10)).Answered, "its worker begins")
	e.add(&answer{status: 429}, verdict{}, at(20))
	require.EqualValues(t, 10, e.sum(0, at(21)).Answered)
	require.EqualValues(t, 30, e.sum(1, at(30)).Answered)
	e.add(&answer{status: 429}, verdict{}, at(40))
	met := e.sum(1, at(1000))
	require.Equal(t, []int64{1000, 30, 40, 2}, []int64{met.At, met.Answered, met.TriedAt, met.Tries})
	next := encounter{met: *met} // of the next worker
	require.EqualValues(t, 30, next.sum(1, at(1001)).Answered)
}
