package inflight

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const mb = 1 << 20

func TestBounds(t *testing.T) {
	b := New(10*mb, 4*mb)
	var a, again, other, third, large Hold
	require.NoError(t, a.Grow(b, "a", 3*mb))
	require.ErrorIs(t, again.Grow(b, "a", 2*mb), ErrKey)
	require.Empty(t, b.Warning(), "that is the key's own affair")
	require.NoError(t, again.Grow(b, "a", Small), "what is small is not counted")
	require.NoError(t, other.Grow(b, "b", 4*mb), "one key does not keep another out")
	require.ErrorIs(t, other.Grow(b, "b", 8*mb), ErrTotal)
	require.ErrorIs(t, third.Grow(b, "c", 5*mb), ErrTotal)
	require.Equal(t, "a body found no room 0s ago: the process holds at most 10 MB of them", b.Warning())
	require.NoError(t, third.Grow(b, "c", 3*mb))
	require.EqualValues(t, 10*mb, b.Held())
	a.Release()
	a.Release()
	require.NoError(t, again.Grow(b, "a", mb))
	for _, h := range []*Hold{&a, &again, &other, &third} {
		h.Release()
	}
	require.Zero(t, b.Held())
	require.Empty(t, b.byKey)
	b.short = b.short.Add(-recently)
	require.Empty(t, b.Warning(), "it is long ago")
	require.Empty(t, (*Bytes)(nil).Warning())
	require.NoError(t, large.Grow(b, "a", 20*mb), "what is larger than the bounds comes alone")
	require.ErrorIs(t, other.Grow(b, "b", mb), ErrTotal)
	require.NoError(t, (&Hold{}).Grow(nil, "a", 100*mb), "without bounds there is room")
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(4*mb, 4*mb)
		var first, second, late Hold
		require.NoError(t, first.Wait(t.Context(), b, "a", 3*mb))
		done := make(chan error, 1)
		go func() { done <- second.Wait(t.Context(), b, "b", 3*mb) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, late.Wait(ctx, b, "c", 3*mb), ErrTotal)
		first.Release()
		require.NoError(t, <-done)
		second.Release()
		require.Zero(t, b.Held())
	})
}
