package timing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/timing"
)

func TestAWaitEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, timing.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, timing.Sleep(ctx, time.Minute), context.DeadlineExceeded)
		require.ErrorIs(t, timing.Sleep(ctx, 0), context.DeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

func TestWorkIsRepeatedFromNowOnUntilItIsDoneOrItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		require.NoError(t, timing.Until(t.Context(), time.Minute, func() bool {
			at = append(at, time.Since(began))
			return len(at) == 3
		}))
		require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, at)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		calls := 0
		require.ErrorIs(t, timing.Every(ctx, time.Minute, func() { calls++ }), context.DeadlineExceeded)
		require.Equal(t, 2, calls)
	})
}
