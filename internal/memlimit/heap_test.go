package memlimit

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASmallHeapIsCollectedSeldom(t *testing.T) {
	t.Setenv(envPercent, "")
	var live int64
	set := []int{}
	h := newHeap(8 << 30)
	h.alive, h.set = func() int64 { return live }, func(percent int) { set = append(set, percent) }
	for _, mb := range []int64{0, 16, 16, 17, 32, 100, 1000, 16} {
		live = mb << 20
		h.adjust()
	}
	require.Equal(t, []int{300, 100, 300}, set, "up to 64 MB; a little more or less changes nothing")

	small := newHeap(256 << 20)
	require.EqualValues(t, 32<<20, small.least, "a part of the limit at most")
	t.Setenv(envPercent, "100")
	require.Zero(t, newHeap(8<<30).least, "the operator decides")
	runtime.GC()
	require.Positive(t, alive())
}
