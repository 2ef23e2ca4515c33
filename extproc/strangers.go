package extproc

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/modelgate/modelgate/extproc/metering"
)

// What strangers, who have no good key, may cost. A client whose key is wrong needs one answer, and a person who looks
// for it one line: both bounds are far above that, and a flood is far above them.
const (
	refusalsPerSecond, refusalsAtOnce = 10, 100 // answers to one address
	linesPerSecond, linesAtOnce       = 10, 200 // lines of the access log, of all addresses

	leftOutEvery = 10 * time.Second
)

// A sampler decides which requests of strangers get a line of the access log, and counts the others.
type sampler struct {
	lines   *rate.Limiter
	leftOut atomic.Int64 // since the last report
	counter prometheus.Counter

	reported time.Time // used by the goroutine that calls report alone
}

func newSampler(r prometheus.Registerer) *sampler {
	s := &sampler{
		lines: rate.NewLimiter(linesPerSecond, linesAtOnce),
		counter: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_access_log_left_out_total",
			Help: "Requests without a valid key that have no line in the access log, because there were too many of them."}),
	}
	r.MustRegister(s.counter)
	return s
}

// allow reports whether there is room for a line.
func (s *sampler) allow(now time.Time) bool {
	if s.lines.AllowN(now, 1) {
		return true
	}
	s.leftOut.Add(1)
	s.counter.Inc()
	return false
}

// report writes how many lines were left out since it last did.
func (s *sampler) report(log *zap.Logger, now time.Time) {
	if now.Sub(s.reported) < leftOutEvery {
		return
	}
	s.reported = now
	if n := s.leftOut.Swap(0); n > 0 {
		log.Warn("requests without a valid key have no line each: there were too many", zap.Int64("left_out", n))
	}
}

// ofStranger reports whether a request was refused before anybody knew whose it was.
func ofStranger(r *metering.Record) bool {
	return r.KeyID == "" && !r.Internal && r.Outcome == metering.OutcomeRejected
}
