package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var allBatchStatuses = []BatchStatus{
	BatchValidating, BatchFailed, BatchInProgress, BatchFinalizing, BatchCompleted, BatchExpired, BatchCancelling,
	BatchCancelled,
}

var allBatchEvents = []BatchEvent{
	BatchValidated, BatchInvalid, BatchDrained, BatchFinished, BatchCancel, BatchStopped, BatchTimeout, BatchLost,
}

func TestABatchTakesTheWaysOfTheDiagramAndNoOther(t *testing.T) {
	type way struct {
		from  BatchStatus
		event BatchEvent
	}
	ways := map[way]BatchStatus{
		{BatchValidating, BatchValidated}: BatchInProgress,
		{BatchValidating, BatchInvalid}:   BatchFailed,
		{BatchValidating, BatchCancel}:    BatchCancelling,
		{BatchValidating, BatchTimeout}:   BatchExpired,
		{BatchValidating, BatchLost}:      BatchFailed,
		{BatchInProgress, BatchDrained}:   BatchFinalizing,
		{BatchInProgress, BatchCancel}:    BatchCancelling,
		{BatchInProgress, BatchTimeout}:   BatchExpired,
		{BatchInProgress, BatchLost}:      BatchFailed,
		{BatchFinalizing, BatchFinished}:  BatchCompleted,
		{BatchFinalizing, BatchLost}:      BatchFailed,
		{BatchCancelling, BatchStopped}:   BatchCancelled,
		{BatchCancelling, BatchCancel}:    BatchCancelling,
		{BatchCancelling, BatchLost}:      BatchFailed,
		{BatchCancelled, BatchCancel}:     BatchCancelled,
	}
	for _, from := range allBatchStatuses {
		for _, event := range allBatchEvents {
			want, ok := ways[way{from, event}]
			next, may := from.Next(event)
			require.Equal(t, ok, may, "%s %s", from, event)
			require.Equal(t, want, next, "%s %s", from, event)
			if from.Over() && may {
				require.Equal(t, from, next, "an end is left")
			}
		}
	}
}

func TestEveryStateOfABatchButTheFirstHasAStampThatIsSetOnce(t *testing.T) {
	for _, s := range allBatchStatuses {
		var stamps Stamps
		stamps.Set(s, 7)
		require.Equal(t, s == BatchValidating, stamps == Stamps{}, s)
		first := stamps
		stamps.Set(s, 8)
		require.Equal(t, first, stamps, s)
	}
}

func TestATuningJobNeverGoesBackAndNeverLeavesAnEnd(t *testing.T) {
	all := []TuningStatus{TuningValidating, TuningQueued, TuningRunning, TuningPaused, TuningSucceeded, TuningFailed,
		TuningCancelled}
	for _, from := range all {
		for _, to := range all {
			may := from.Becomes(to)
			switch {
			case from.Over(), to == TuningValidating, from == to:
				require.False(t, may, "%s %s", from, to)
			case to.Over():
				require.True(t, may, "%s %s", from, to)
			}
		}
	}
	require.True(t, TuningRunning.Becomes(TuningPaused))
	require.True(t, TuningPaused.Becomes(TuningQueued))
	require.True(t, TuningPaused.Becomes(TuningRunning))
}

func TestABackgroundResponseEndsOnce(t *testing.T) {
	events := []ResponseEvent{ResponseTaken, ResponseAnswered, ResponseStopped, ResponseBroken, ResponseCancel}
	ends := map[ResponseStatus][]ResponseStatus{ // what each event leads to; "" is nothing
		ResponseQueued: {ResponseInProgress, "", "", "", ResponseCancelled},
		ResponseInProgress: {ResponseInProgress, ResponseCompleted, ResponseIncomplete, ResponseFailed,
			ResponseCancelled},
		ResponseCompleted:  make([]ResponseStatus, len(events)),
		ResponseIncomplete: make([]ResponseStatus, len(events)),
		ResponseFailed:     make([]ResponseStatus, len(events)),
		ResponseCancelled:  make([]ResponseStatus, len(events)),
	}
	for from, want := range ends {
		for i, event := range events {
			next, may := from.Next(event)
			require.Equal(t, want[i], next, "%s %s", from, event)
			require.Equal(t, next != "", may, "%s %s", from, event)
		}
		require.Equal(t, from != ResponseQueued && from != ResponseInProgress, from.Over(), from)
	}
}
