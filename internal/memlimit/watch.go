package memlimit

import (
	"context"
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
	// shedAt and openAt are the parts of the limit from which on nothing new is begun, and under which it is again.
	shedAt, openAt = 0.90, 0.80
)

// A Watch says whether so much memory is in use that nothing new should be begun. It is made by New and safe for concurrent use; nil
// never says so.
type Watch struct {
	limit    int64
	used     func() int64
	collect  func()
	shedding atomic.Bool
}

// New returns a Watch of a limit, as Set returns it. It looks while Run runs.
func New(limit int64) *Watch { return &Watch{limit: limit, used: used, collect: runtime.GC} }

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
			if w.look(now.Sub(collected) >= collectEvery) {
				collected = now
			}
		}
	}
}

// look decides anew, and reports whether it had to collect, which may says that it may. What seems to be too much counts once what is
// garbage is gone.
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
		return true
	}
	return false
}

// used returns how many bytes are in use, of what the limit of Go's runtime bounds.
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
		gauge("modelgate_memory_limit_bytes", "Memory that Go's part of the process may take; 0 is no limit.", func() float64 { return float64(w.limit) }),
		gauge("modelgate_memory_shedding", "1 while so much memory is in use that nothing new is begun.", func() float64 {
			if w.Shedding() {
				return 1
			}
			return 0
		}),
	}
}
