// Package work measures the cost of a function, for tests that bound it: tenants and vendors choose the size of the
// input, and the cost must stay in proportion to it.
//
// The wall clock is no measure on a busy machine. CPU is the CPU time of the calling thread, and Bytes are all
// allocations, which is an upper bound of the memory in use.
package work

import (
	"runtime"
	"testing"
	"time"
)

// A Cost is what a function took.
type Cost struct {
	CPU   time.Duration
	Bytes int64 // allocated by the whole process, what has been freed included
}

// Of runs f and returns what it took. No other test should run at the same time, for its allocations would count.
func Of(f func()) Cost {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := threadTime()
	f()
	took := threadTime() - began
	runtime.ReadMemStats(&after)
	return Cost{took, int64(after.TotalAlloc - before.TotalAlloc)}
}

const (
	perInput  = 3 * time.Microsecond // of CPU, for each byte of input: three seconds for a megabyte
	floorCPU  = 500 * time.Millisecond
	floorSize = 8 << 20
)

// Require fails a fuzz test where f costs more than a constant and so much for each byte of input: that is generous
// enough for a busy machine, and for whatever fuzzing adds. perByte is how many bytes may be allocated for each.
func Require(t testing.TB, input, perByte int, f func()) {
	t.Helper()
	c := Of(f)
	if most := floorCPU + time.Duration(input)*perInput; c.CPU > most {
		t.Errorf("%d bytes of input took %v of CPU, and may take %v", input, c.CPU, most)
	}
	if most := floorSize + int64(input)*int64(perByte); c.Bytes > most {
		t.Errorf("%d bytes of input made %d bytes of memory, and may make %d", input, c.Bytes, most)
	}
}
