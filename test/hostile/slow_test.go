package hostile

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// trickle is a body of a byte a second, until it is closed.
type trickle struct {
	done  chan struct{}
	close func()
}

func newTrickle() *trickle {
	done := make(chan struct{})
	return &trickle{done, sync.OnceFunc(func() { close(done) })}
}

func (b *trickle) Read(p []byte) (int, error) {
	select {
	case <-b.done:
		return 0, io.EOF
	case <-time.After(time.Second):
		p[0] = 'x'
		return 1, nil
	}
}

func (b *trickle) Close() error {
	b.close()
	return nil
}

// TestStrangersWhoSendSlowlyAreAnsweredInTime has a thousand strangers announce 1 MiB each, for which their answers
// wait, and send a byte a second.
func TestStrangersWhoSendSlowlyAreAnsweredInTime(t *testing.T) {
	t.Parallel()
	g := harness.Run(t, t.TempDir())
	require.Equal(t, http.StatusOK, g.As(g.Key).Chat(t,
		`{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}`).Status)
	before := resident(t, g.PID())
	const strangers = 1000
	var refused [600]atomic.Int64
	var slowest, peak atomic.Int64
	var all sync.WaitGroup
	for range strangers / 100 {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: g.Client.Transport.(*http.Transport).TLSClientConfig.RootCAs},
			ForceAttemptHTTP2: true,
		}, Timeout: time.Minute}
		t.Cleanup(client.CloseIdleConnections)
		for range 100 {
			all.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions", newTrickle())
				if err != nil {
					t.Error(err)
					return
				}
				r.ContentLength = 1 << 20
				began := time.Now()
				answer, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_ = answer.Body.Close()
				refused[answer.StatusCode].Add(1)
				raise(&slowest, int64(time.Since(began)))
				raise(&peak, resident(t, g.PID()))
			})
		}
	}
	answered := g.As(g.Key).Chat(t, `{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, http.StatusOK, answered.Status, "a good key goes on meanwhile")
	all.Wait()
	require.EqualValues(t, strangers, refused[http.StatusUnauthorized].Load()+refused[http.StatusTooManyRequests].Load())
	figure(t, "a thousand strangers who announce 1 MiB", "the last was answered after %s, memory grew by %d MB",
		time.Duration(slowest.Load()).Round(time.Millisecond), (peak.Load()-before)>>20)
	require.Less(t, time.Duration(slowest.Load()), 30*time.Second, "5 seconds, and what a busy machine adds")
	require.Less(t, peak.Load()-before, int64(300<<20))
}

func raise(of *atomic.Int64, to int64) {
	for old := of.Load(); old < to && !of.CompareAndSwap(old, to); old = of.Load() {
	}
}

// resident returns how many bytes of memory a process and its children have.
func resident(t *testing.T, pid int) (sum int64) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(threads) == 0 {
		t.Error("no /proc:", err)
	}
	processes := []string{strconv.Itoa(pid)}
	for _, thread := range threads {
		children, _ := os.ReadFile(thread) // it may have ended
		processes = append(processes, strings.Fields(string(children))...)
	}
	for _, process := range processes {
		statm, err := os.ReadFile("/proc/" + process + "/statm")
		if fields := strings.Fields(string(statm)); err == nil && len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}
