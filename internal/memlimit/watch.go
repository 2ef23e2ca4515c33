package memlimit

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// every is how often the memory in use is looked at.
	every = 100 * time.Millisecond
	// collectEvery is how often a collection is forced at most, to learn what is really in use.
	collectEvery = time.Second
	// shedAt and openAt are parts of the limit: above the first nothing new begins, and under the second it begins
	// again.
	shedAt, openAt = 0.90, 0.80
)

// A Watch says whether so much memory is in use that nothing new should be begun. It is made by New and safe for
// concurrent use; nil never says so.
type Watch struct {
	limit    int64
	used     func() int64
	collect  func()
	heap     heap
	shedding atomic.Bool
	shed     atomic.Int64 // when nothing new was begun the last time, in Unix nanoseconds; 0: never
}

// Recently is for how long after the fact a process says that it has refused work.
const Recently = 10 * time.Minute

// New returns a Watch of a limit, as Set returns it. It looks while Run runs.
func New(limit int64) *Watch {
	return &Watch{limit: limit, used: used, collect: runtime.GC, heap: newHeap(limit)}
}

// Shedding reports whether nothing new should be begun.
func (w *Watch) Shedding() bool { return w != nil && w.shedding.Load() }

// Limit returns the limit in bytes; 0 is none.
func (w *Watch) Limit() int64 { return w.limit }

// Run looks at the memory until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	if w.limit == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var collected time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			w.heap.adjust()
			if w.look(now.Sub(collected) >= collectEvery) {
				collected = now
			}
		}
	}
}

// look decides anew, and reports whether it had to collect, which may says that it may. What seems to be too much
// counts once what is garbage is gone.
func (w *Watch) look(may bool) (collected bool) {
	bound := shedAt
	if w.shedding.Load() {
		bound = openAt
	}
	over := func() bool { return float64(w.used()) > bound*float64(w.limit) }
	switch {
	case !over():
		w.shedding.Store(false)
	case may:
		w.collect()
		w.shedding.Store(over())
		if w.shedding.Load() {
			w.shed.Store(time.Now().UnixNano())
		}
		return true
	}
	return false
}

// Warning says that work is refused for want of memory, or that it was a short time ago, and whether it is now; or "".
func (w *Watch) Warning() (text string, now bool) {
	if w == nil {
		return "", false
	}
	at := time.Unix(0, w.shed.Load())
	switch ago := time.Since(at); {
	case w.Shedding():
		return fmt.Sprintf("more than %d %% of the memory limit of %d MB is in use, and nothing new is begun",
			int(100*openAt), w.limit>>20), true
	case ago < Recently:
		return fmt.Sprintf("nothing new was begun %s ago: more than %d %% of the memory limit of %d MB was in use",
			ago.Round(time.Second), int(100*shedAt), w.limit>>20), false
	}
	return "", false
}

// used returns how many bytes are in use, as the limit of Go's runtime counts them.
func used() int64 {
	read := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(read)
	n := read[0].Value.Uint64()
	for _, unused := range read[1:] {
		n -= unused.Value.Uint64()
	}
	return int64(n)
}

// Collectors shows the limit and whether it is reached.
func (w *Watch) Collectors() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		gauge("modelgate_memory_limit_bytes", "Memory that Go's part of the process may take; 0 is no limit.",
			func() float64 { return float64(w.limit) }),
		gauge("modelgate_memory_shedding", "1 while so much memory is in use that nothing new is begun.", func() float64 {
			if w.Shedding() {
				return 1
			}
			return 0
		}),
	}
}
