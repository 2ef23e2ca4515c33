package batches_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/gateway"
)

// TestLargeAnswersAreNotKept: there are many more lines that wait for their turn than are asked at once.
func TestLargeAnswersAreNotKept(t *testing.T) {
	w := newWorld(t)
	const lines, free = 700, 256
	w.limits.Lines, w.limits.Open = 64, 400
	body := `{"data":"` + strings.Repeat("y", 600<<10) + `"}`
	var answered atomic.Int64
	all, release := make(chan struct{}), make(chan struct{})
	w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) {
		switch n := answered.Add(1); {
		case n == free:
			close(all)
		case n > free:
			<-release
		}
		return respond(http.StatusOK, body), nil
	}
	id := w.create(requests(lines))
	w.run(nil)
	<-all
	w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == free })
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	close(release)
	require.Equal(t, "completed", w.over(id).status())
	require.Less(t, m.HeapAlloc>>20, uint64(32), "MB, with the etcd of this test")
}
