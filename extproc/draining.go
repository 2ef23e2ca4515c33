package extproc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Envoy sends what it logs every tenth of a second: what there is to say of the last exchange has come when none was
// open for quiet looks.
const (
	drainLook = 100 * time.Millisecond
	quiet     = 5
)

// A drain ends the streams of Envoy's access logs, which Envoy keeps open for as long as it lives, when the process
// ends and nothing else is open any more. Envoy then opens others to the process that has taken the socket.
type drain struct {
	exchanges atomic.Int64  // streams of filters that are open
	over      chan struct{} // closed when those of logs are to end
	takers    sync.WaitGroup
}

// run closes over once no exchange has been open for a while, or when ctx ends.
func (d *drain) run(ctx context.Context) {
	defer close(d.over)
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for looks := 0; looks < quiet; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if d.exchanges.Load() > 0 {
			looks = -1
		}
	}
}
