package extproc

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/usage"
)

// Bounds on the refused requests that this process notes in the ledger. Strangers, who have no valid key, cannot use
// up what is for clients.
const (
	strangersPerSecond, strangerBurst = 1, 50
	clientsPerSecond, clientBurst     = 10, 200
)

// refusedRequests notes refused requests in the ledger.
type refusedRequests struct {
	spool              usage.Spool
	process            string
	noted              atomic.Uint64
	strangers, clients *rate.Limiter
	leftOut            *prometheus.CounterVec
}

func newRefusedRequests(r prometheus.Registerer, spool usage.Spool, process string) *refusedRequests {
	n := &refusedRequests{spool: spool, process: process, strangers: rate.NewLimiter(strangersPerSecond, strangerBurst),
		clients: rate.NewLimiter(clientsPerSecond, clientBurst),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_refusals_left_out_total",
			Help: "Refused requests that are not in the ledger because there were too many, by whether the key is known: known, unknown."},
			[]string{"key"})}
	for _, key := range []string{"known", "unknown"} { // so that rates are visible from the start
		n.leftOut.WithLabelValues(key)
	}
	r.MustRegister(n.leftOut)
	return n
}

// note notes a request that the gateway has refused.
func (n *refusedRequests) note(r *metering.Record) {
	if n.spool == nil || r.RefusedBy == "" || r.Internal {
		return
	}
	bucket, key := n.clients, "known"
	if r.Key == "" {
		bucket, key = n.strangers, "unknown"
	}
	if !bucket.AllowN(r.End, 1) {
		n.leftOut.WithLabelValues(key).Inc()
		return
	}
	e := r.Entry()
	if e.Id == "" {
		e.Id = n.process + "." + strconv.FormatUint(n.noted.Add(1), 36)
	}
	n.spool.End(e)
}
