package batches_test

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/gateway"
)

// TestLargeAnswersAreNotKept: there are many more lines that wait for their turn than are asked at once.
func TestLargeAnswersAreNotKept(t *testing.T) {
	w := newWorld(t)
	const lines, free = 200, 96
	w.limits.Lines, w.limits.Open = 64, 400
	body := `{"data":"` + strings.Repeat("y", 600<<10) + `"}`
	release := make(chan struct{})
	w.asked.answer = func(ctx context.Context, a gateway.Ask, _ int) (*http.Response, error) {
		_, number, _ := strings.Cut(a.Charge, "/")
		if n, err := strconv.Atoi(number); err != nil || n > free {
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return respond(http.StatusOK, body), nil
	}
	id := w.create(requests(lines))
	w.run(nil)
	w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == free })
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	close(release)
	require.Equal(t, "completed", w.over(id).status())
	require.Less(t, m.HeapAlloc>>20, uint64(32), "MB, with the etcd of this test")
}
