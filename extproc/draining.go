package extproc

import (
	"context"
	"sync"
	"time"
)

// Envoy sends its access log every tenth of a second. If no exchange was open for this number of looks, the record of
// the last one has arrived.
const (
	drainInterval  = 100 * time.Millisecond
	quietIntervals = 5
)

// A drain ends the streams of Envoy's access logs when the process ends and no exchange is open. Envoy never closes
// them itself. Envoy then opens new streams to the process that has taken the socket.
type drain struct {
	over   chan struct{} // closed when the streams of logs have to end
	takers sync.WaitGroup
}

// run closes over when no exchange has been open for a while, or when ctx ends. The function open counts those.
func (d *drain) run(ctx context.Context, open func() int64) {
	defer close(d.over)
	tick := time.NewTicker(drainInterval)
	defer tick.Stop()
	for looks := 0; looks < quietIntervals; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if open() > 0 {
			looks = -1
		}
	}
}
