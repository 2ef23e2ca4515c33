package serve

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
)

func TestAProcessGoesOnForAWhileWhenItIsToldToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, e := parts.New(zap.NewNop()), &parts.Ending{}
		returned := make(chan error, 1)
		go func() { returned <- shutdownFlags{ShutdownDelay: 5 * time.Second}.wait(ctx, p, e) }()
		synctest.Wait()
		require.NoError(t, e.Ready())
		answer := func() string {
			w := httptest.NewRecorder()
			e.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			require.Equal(t, http.StatusNotFound, w.Code, "it goes on to serve")
			return w.Header().Get("Connection")
		}
		require.Empty(t, answer())

		start := time.Now()
		cancel()
		synctest.Wait()
		require.Error(t, e.Ready())
		require.Equal(t, "close", answer())
		require.Empty(t, returned)
		require.NoError(t, <-returned)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestAPartThatEndsByItselfEndsTheProcessAtOnce(t *testing.T) {
	for name, told := range map[string]bool{"while it serves": false, "while it is ending": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p, broken := parts.New(zap.NewNop()), make(chan error)
				p.Serve("a part", func(context.Context) error { return <-broken })
				start := time.Now()
				returned := make(chan error, 1)
				go func() { returned <- shutdownFlags{ShutdownDelay: time.Hour}.wait(ctx, p, &parts.Ending{}) }()
				if told {
					cancel()
				}
				synctest.Wait()
				broken <- errors.New("broken")
				require.ErrorContains(t, <-returned, "broken")
				require.Zero(t, time.Since(start))
			})
		})
	}
}
