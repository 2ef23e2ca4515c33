// Package work counts what a function costs, for tests that bound it: tenants and vendors choose the size of the
// input, and the cost must stay in proportion to it.
//
// Time is no measure on a busy machine, so nothing here is timed. Steps are counted only in tests that are built with
// the tag "steps" (see Of); in others they are zero, and only the memory is compared.
package work

import (
	"runtime"
	"testing"
)

// A Cost is the cost of a function call.
type Cost struct {
	Steps int64 // executions of blocks of statements, in the packages that the test is built to cover
	Bytes int64 // allocated by the whole process, what has been freed included: an upper bound of the memory in use
}

// Of runs f and returns what it took. No other test should run at the same time, for its work would count.
//
// Steps are counted under "go test -tags steps -covermode atomic -coverpkg PACKAGES -ldflags
// -checklinkname=0".
func Of(f func()) Cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resetSteps()
	f()
	runtime.ReadMemStats(&after)
	return Cost{steps(), int64(after.TotalAlloc - before.TotalAlloc)}
}

// Proportional returns the two costs if four times the input costs more than eight times as many steps, and reports
// whether it does not. What takes fewer steps than the floor proves nothing.
func Proportional(floor int64, smaller, larger func()) (small, large Cost, ok bool) {
	if large = Of(larger); large.Steps <= floor {
		return small, large, true
	}
	small = Of(smaller)
	return small, large, large.Steps <= 8*small.Steps
}

const (
	perInput   = 300 // steps for each byte of input
	floorSteps = 1 << 20
	floorSize  = 8 << 20
)

// Require fails a fuzz test where f costs more than a constant and so much for each byte of input. perByte is how many
// bytes may be allocated for each.
func Require(t testing.TB, input, perByte int, f func()) {
	t.Helper()
	c := Of(f)
	if most := floorSteps + int64(input)*perInput; c.Steps > most {
		t.Errorf("%d bytes of input took %d steps, and may take %d", input, c.Steps, most)
	}
	if most := floorSize + int64(input)*int64(perByte); c.Bytes > most {
		t.Errorf("%d bytes of input made %d bytes of memory, and may make %d", input, c.Bytes, most)
	}
}
