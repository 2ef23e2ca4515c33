package batches_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/gateway"
)

func TestZZMemory(t *testing.T) {
	w := newWorld(t)
	w.limits = batches.Limits{}
	big := strings.Repeat("y", 1<<20)
	body := `{"object":"x","data":"` + big + `","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		time.Sleep(50 * time.Millisecond)
		return respond(200, body), nil
	}
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `{"custom_id":"a%d","method":"POST","url":"%s","body":{"model":"m%d","messages":[{"role":"user","content":"%s"}]}}`+"\n", i, chat, i%4, big)
	}
	in := w.input(b.String())
	b.Reset()
	var ids []string
	for range 16 {
		a := w.call("POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, in, chat))
		require.Equal(t, 200, a.Code, a.Body.String())
		ids = append(ids, wireOf(a).Get("id").String())
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base := m.HeapInuse
	var peak, peakG uint64
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			peakG = max(peakG, uint64(runtime.NumGoroutine()))
		}
	}()
	began := time.Now()
	w.run(nil)
	for _, id := range ids {
		w.until(id, func(b wire) bool { return b.status() == "completed" })
	}
	close(done)
	<-ended
	t.Logf("base %d MB, peak %d MB, %d goroutines, %v", base>>20, peak>>20, peakG, time.Since(began))
}
