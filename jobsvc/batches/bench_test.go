package batches_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/gateway"
)

// large returns an input of 50,000 lines, each with so many words.
func large(words int) string {
	const lines = 50_000
	content := strings.Repeat("lorem ", words)
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b,
			`{"custom_id":"request-%d","method":"POST","url":"%s","body":{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"%s"}]}}`+"\n", i, chat, content)
	}
	return b.String()
}

const canned = `{"id":"chatcmpl-1","object":"chat.completion","created":1800000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
	`"content":"lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore","refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}}`

// BenchmarkBatch measures what a line costs but for its request: the provider answers at once.
func BenchmarkBatch(b *testing.B) {
	text := large(316) // 100 MB
	for b.Loop() {
		w := newWorld(b)
		w.limits = batches.Limits{}
		w.asked.answer = nil
		quick := &quickGateway{asked: w.asked}
		w.gateway = quick
		w.run(nil)
		id := w.create(text)
		done := w.over(id)
		require.Equal(b, "completed", done.status())
		require.EqualValues(b, 50_000, done.Get("request_counts.completed").Int())
	}
	b.ReportMetric(50_000*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// A quickGateway answers at once, and looks at the memory in use every so many answers.
type quickGateway struct {
	*asked
	every int64
	n     atomic.Int64
	heap  atomic.Uint64
}

// live returns the memory in use, in bytes.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (g *quickGateway) Ask(context.Context, gateway.Ask) (*http.Response, error) {
	if g.every > 0 && g.n.Add(1)%g.every == 0 {
		g.heap.Store(max(g.heap.Load(), live()))
	}
	return respond(http.StatusOK, canned), nil
}

func TestALargeBatchTakesLittleMemoryAndASmallRecord(t *testing.T) {
	w := newWorld(t)
	w.limits = batches.Limits{}
	quick := &quickGateway{asked: w.asked, every: 9000}
	w.gateway = quick
	id := w.create(large(10)) // whose answers have 35 MB
	before := live()
	w.run(nil)
	b := w.over(id)
	require.EqualValues(t, 50_000, b.Get("request_counts.completed").Int())
	require.EqualValues(t, 350_000, b.Get("usage.total_tokens").Int())
	require.NotZero(t, quick.heap.Load())
	require.Less(t, quick.heap.Load(), before+16<<20)
	require.Less(t, w.recordSize(), 4<<10)
}
