package batches_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
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
	var mu sync.Mutex
	answered := map[string]bool{} // a line is asked again where the claim was lost meanwhile
	w.asked.answer = func(ctx context.Context, a gateway.Ask, _ int) (*http.Response, error) {
		mu.Lock()
		answers := answered[a.Charge] || len(answered) < free
		if answers {
			answered[a.Charge] = true
		}
		mu.Unlock()
		if !answers {
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return respond(http.StatusOK, body), nil
	}
	id := w.create(requests(lines))
	before := heap()
	w.run(nil)
	w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == free })
	held := heap() - before
	close(release)
	require.Equal(t, "completed", w.over(id).status())
	require.Less(t, held, 24.0, "MB")
}

// heap returns how many MB are in use. What pools hold is given up by the second collection.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
