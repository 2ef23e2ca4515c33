package turns

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, 100)
		var order []string
		work := func(owner string, pieces int) {
			var n Turn
			defer n.Release()
			for range pieces {
				require.NoError(t, n.Take(t.Context(), turns, owner))
				order = append(order, owner) // only who has the turn does so
			}
		}
		var first Turn
		require.NoError(t, first.Take(t.Context(), turns, "x"))
		for range 3 {
			go work("many", 2)
			synctest.Wait()
		}
		go work("one", 2)
		synctest.Wait()
		running, waiting := turns.Load()
		require.Equal(t, []int{1, 4}, []int{running, waiting})
		first.Release()
		first.Release()
		synctest.Wait()
		require.Equal(t, []string{"many", "one", "many", "one"}, order[:4], "whoever has more requests has no more turns")
		require.Len(t, order, 8)
		running, waiting = turns.Load()
		require.Equal(t, []int{0, 0}, []int{running, waiting})
		require.Empty(t, turns.running)
		require.Empty(t, turns.waiting)
		require.Empty(t, turns.order)
	})
}

func TestOneOwnerDoesNotHaveAllTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(2, 1)
		var a, b, c, d, e Turn
		require.NoError(t, a.Take(t.Context(), turns, "a"))
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Take(ctx, turns, "a") }()
		synctest.Wait()
		require.ErrorIs(t, c.Take(t.Context(), turns, "a"), ErrMany)
		go func() { done <- d.Take(t.Context(), turns, "d") }()
		require.NoError(t, <-done, "there is a turn for others")
		leave()
		require.ErrorIs(t, <-done, context.Canceled)
		_, waiting := turns.Load()
		require.Zero(t, waiting)
		d.Release()
		a.Release()
		running, _ := turns.Load()
		require.Zero(t, running)
		require.NoError(t, e.Take(t.Context(), nil, "e"), "without bounds")
		e.Release()
		running, waiting = (*Turns)(nil).Load()
		require.Zero(t, running+waiting)
	})
}
