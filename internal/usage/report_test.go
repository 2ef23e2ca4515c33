package usage_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/usage"
)

// TestWhatIsWrongWithStoresIsTold until nothing is.
func TestWhatIsWrongWithStoresIsTold(t *testing.T) {
	o := options(t.TempDir())
	var wrong atomic.Value
	wrong.Store("Redis is away.")
	o.Stores = func() string { return wrong.Load().(string) }
	synctest.Test(t, func(t *testing.T) {
		s, err := usage.OpenSpool(o)
		require.NoError(t, err)
		k, began := newKeeper(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx, k) })
		time.Sleep(time.Minute)
		many, _, last := k.told()
		require.Equal(t, []any{"Redis is away.", began.Unix()}, []any{last.GetStores(), last.GetStoresSince().GetSeconds()})
		require.Greater(t, many, 50, "a process that says it no more has died")
		wrong.Store("")
		time.Sleep(time.Minute)
		calls, _, last := k.told()
		time.Sleep(time.Minute)
		again, _, _ := k.told()
		require.Equal(t, []any{"", again}, []any{last.GetStores(), calls})
		cancel()
		running.Wait()
		require.NoError(t, s.Close())
	})
}

// TestWhatWasDroppedIsToldForAWhile also without records to ship, and its end once.
func TestWhatWasDroppedIsToldForAWhile(t *testing.T) {
	o := options(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		s, err := usage.OpenSpool(o)
		require.NoError(t, err)
		k := newKeeper()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx, k) })
		time.Sleep(time.Minute)
		calls, _, _ := k.told()
		require.Zero(t, calls, "nothing is wrong")
		dropped := time.Now()
		s.End(rec("", 1)) // has no id
		time.Sleep(14 * time.Minute)
		_, _, last := k.told()
		require.Equal(t, []any{"records were dropped", int64(1), dropped.Unix()},
			[]any{last.GetTrouble(), last.GetDropped(), last.GetTroubleSince().GetSeconds()})
		time.Sleep(2 * time.Minute)
		calls, _, last = k.told()
		require.Empty(t, last.GetTrouble())
		time.Sleep(time.Minute)
		again, _, _ := k.told()
		require.Equal(t, calls, again)
		cancel()
		running.Wait()
		require.NoError(t, s.Close())
	})
}
