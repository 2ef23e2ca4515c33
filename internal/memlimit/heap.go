package memlimit

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// envPercent is the variable of Go's runtime for how much the heap grows between two collections.
	envPercent = "GOGC"
	// usualPercent is Go's own growth: the heap doubles.
	usualPercent = 100
	// leastHeap is up to where a small heap grows before it is collected, in bytes. Most of the gateway's heap is its
	// configuration, which a collection reads to no end, and a request leaves little behind.
	leastHeap = 64 << 20
	// leastShare is the part of the limit that leastHeap may take at most.
	leastShare = 8
)

// A heap sets how much Go's heap grows between two collections, by how much of it is alive.
type heap struct {
	least   int64 // up to where it grows; 0: the operator has decided
	percent int   // that is set
	alive   func() int64
	set     func(percent int)
}

// newHeap returns a heap below a limit. If $GOGC is set, it holds.
func newHeap(limit int64) heap {
	h := heap{percent: usualPercent, alive: alive, set: func(percent int) { debug.SetGCPercent(percent) }}
	if os.Getenv(envPercent) == "" {
		h.least = min(leastHeap, limit/leastShare)
	}
	return h
}

// adjust sets the growth anew if the live heap has changed much. Large heaps double, as always.
func (h *heap) adjust() {
	live := h.alive()
	if h.least == 0 || live == 0 {
		return
	}
	percent := int(max(usualPercent, 100*(h.least-live)/live))
	if math.Abs(float64(percent-h.percent)) > float64(h.percent)/10 {
		h.percent = percent
		h.set(percent)
	}
}

// alive returns how much of the heap the last collection has found alive, in bytes.
func alive() int64 {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	if read[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(read[0].Value.Uint64())
}
