package admin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

func TestOneExportIsMadeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{exports: semaphore.NewWeighted(1)}
		leave, err := s.export(t.Context())
		require.NoError(t, err)

		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.export(impatient)
		require.ErrorContains(t, err, "Too many exports are running")

		entered := make(chan struct{})
		go func() {
			next, err := s.export(t.Context())
			require.NoError(t, err)
			next()
			close(entered)
		}()
		synctest.Wait()
		leave()
		<-entered
	})
}
