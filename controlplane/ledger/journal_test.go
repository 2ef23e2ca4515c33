package ledger_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/controlplane/ledger"
)

// A batch that cannot be read is reported, stays where it is, and keeps no other from being read.
func TestABatchThatCannotBeReadIsSetAside(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		gone := open(t, dsn)
		gone.HoldSums()
		for _, id := range []string{"a", "b", "c"} {
			keep(t, gone, rec(id))
		}
		require.NoError(t, gone.SpoilOne(t.Context()))
		core, logged := observer.New(zap.ErrorLevel)
		next, err := ledger.Open(context.Background(), dsn, zap.New(core))
		require.NoError(t, err)
		defer func() { require.NoError(t, next.Close()) }()
		for range 2 {
			requests, _ := requireSums(t, next)
			require.Equal(t, int64(2), requests)
		}
		require.Len(t, logged.All(), 1)
		batches, err := next.Unfolded(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, batches)
		keep(t, next, rec("d"))
		requests, _ := requireSums(t, next)
		require.Equal(t, int64(3), requests)
	})
}

// What others have folded, a process does not remember for longer than until it folds again.
func TestWhatOthersHaveFoldedIsForgotten(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, other := open(t, dsn), open(t, dsn)
		release := l.HoldSums()
		for _, id := range []string{"a", "b", "c"} {
			keep(t, l, rec(id))
		}
		requests, _ := requireSums(t, other)
		require.Equal(t, int64(3), requests)
		release()
		keep(t, l, rec("d"))
		requests, _ = requireSums(t, l)
		require.Equal(t, int64(4), requests)
		records, batches := l.Waiting()
		require.Zero(t, records)
		require.Zero(t, batches)
	})
}
