package hostile

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// TestPoint5AFloodOfStrangersIsAFewLines sends what HTTP/2 makes cheap: a long path that the client names once, and
// from then on by a byte. 3,000 such requests are 44 KB on the wire, and were 12.8 MB of log.
func TestPoint5AFloodOfStrangersIsAFewLines(t *testing.T) {
	t.Parallel()
	g := harness.Run(t, t.TempDir())
	const requests, workers = 3000, 50
	long := strings.Repeat("x", 3500)
	before := len(g.Output())
	began := time.Now()
	var answers [600]atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range requests / workers {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v1/"+long, nil)
				if err != nil {
					t.Error(err)
					return
				}
				response, err := g.Client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				answers[response.StatusCode].Add(1)
			}
		})
	}
	wait.Wait()
	took := time.Since(began)
	require.Positive(t, answers[http.StatusUnauthorized].Load())
	require.EqualValues(t, requests, answers[http.StatusUnauthorized].Load()+answers[http.StatusTooManyRequests].Load())
	require.Positive(t, answers[http.StatusTooManyRequests].Load(), "an address that goes on is told to stop")

	answer := g.As(g.Key).Chat(t, `{"model":"echo/echo","messages":[{"role":"user","content":"Hello"}]}`)
	require.Equal(t, http.StatusOK, answer.Status, "a good key from the same address goes on")
	grown := len(g.Output()) - before
	require.Less(t, grown, 1<<20)
	figure(t, "3,000 refused requests", "%d KB of log, %s, %d answered 401 and %d answered 429", grown>>10,
		took.Round(time.Millisecond),
		answers[http.StatusUnauthorized].Load(), answers[http.StatusTooManyRequests].Load())
	g.WaitFor(t, "requests without a valid key have no line each")
}
