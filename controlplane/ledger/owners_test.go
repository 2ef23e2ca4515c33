package ledger_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// TestQueriesOfOneOwnerLeaveConnectionsToOthers: somebody who may read the usage of one tenant could hold all
// connections with queries over years. Nobody else had an answer then, and budgets were not raised to what was spent.
func TestQueriesOfOneOwnerLeaveConnectionsToOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		held := make(chan struct{})
		var many sync.WaitGroup
		defer many.Wait()
		defer close(held)
		begun := make(chan struct{}, 100)
		for range 40 {
			many.Go(func() {
				_ = l.Query(ledger.For(context.Background(), "acme"), func() { begun <- struct{}{}; <-held })
			})
		}
		<-begun
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		require.NoError(t, l.Query(ledger.For(ctx, "beta"), func() {}), "of another owner")
		many.Go(func() {
			_ = l.Query(ledger.For(context.Background(), "beta"), func() { begun <- struct{}{}; <-held })
		})
		require.NoError(t, l.Query(ctx, func() {}), "of nobody, such as what was spent of budgets")
		keep(t, l, rec("a"))
		used, all := l.Connections()
		require.Less(t, used, all, "one stays free")

		short, over := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer over()
		err := l.Query(ledger.For(short, "acme"), func() {})
		var e *openai.Error
		require.ErrorAs(t, ledger.Unavailable(err), &e)
		require.Equal(t, http.StatusTooManyRequests, e.Status)
	})
}
