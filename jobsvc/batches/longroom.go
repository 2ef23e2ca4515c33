package batches

import (
	"context"

	"github.com/modelgate/modelgate/jobsvc/memory"
)

// longLine is the size of a line that needs no room of its own, in bytes.
const longLine = 1 << 20

// A longRoom is room in memory for one long line: all that it may become, before more of it is read.
type longRoom struct {
	held func(bytes int64) error // nil: there are no bounds
	give func(bytes int64)
	has  bool
}

// roomIn returns room of the hold of a context.
func roomIn(ctx context.Context) longRoom {
	h := memory.Of(ctx)
	return longRoom{held: func(bytes int64) error { return h.Await(ctx, bytes) }, give: h.Give}
}

// longCopies is how often a long line is in memory: as it is, and where it was while it grew.
const longCopies = 2

// grow takes the room if a line of so many bytes is long.
func (r *longRoom) grow(bytes int) error {
	if r.has || r.held == nil || bytes <= longLine {
		return nil
	}
	err := r.held(longCopies * maxLine)
	r.has = err == nil
	return err
}

// free gives it back.
func (r *longRoom) free() {
	if r.has {
		r.give(longCopies * maxLine)
		r.has = false
	}
}
