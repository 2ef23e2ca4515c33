package extproc

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/modelgate/modelgate/extproc/metering"
)

// Bounds on the cost of strangers, which are clients without a valid key. A client with a wrong key needs one answer,
// and an operator who searches for it needs one line. Both bounds are far above that, and far below a flood.
const (
	refusalsPerSecond, refusalBurst = 10, 100 // answers to one address
	linesPerSecond, lineBurst       = 10, 200 // lines of the access log, of all addresses

	leftOutEvery = 10 * time.Second
)

// A sampler decides which requests of strangers get a line in the access log, and counts the others.
type sampler struct {
	lines   *rate.Limiter
	leftOut atomic.Int64 // since the last report
	counter prometheus.Counter

	reported time.Time // used only by the goroutine that calls report
}

func newSampler(r prometheus.Registerer) *sampler {
	s := &sampler{
		lines: rate.NewLimiter(linesPerSecond, lineBurst),
		counter: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_access_log_left_out_total",
			Help: "Requests without a valid key that have no line in the access log, because there were too many of them."}),
	}
	r.MustRegister(s.counter)
	return s
}

// allow reports whether a line may be written.
func (s *sampler) allow(now time.Time) bool {
	if s.lines.AllowN(now, 1) {
		return true
	}
	s.leftOut.Add(1)
	s.counter.Inc()
	return false
}

// report logs how many lines were left out since the last report.
func (s *sampler) report(log *zap.Logger, now time.Time) {
	if now.Sub(s.reported) < leftOutEvery {
		return
	}
	s.reported = now
	if n := s.leftOut.Swap(0); n > 0 {
		log.Warn("requests without a valid key have no line each: there were too many", zap.Int64("left_out", n))
	}
}

// ofStranger reports whether a request was refused for its key: before its client was known, or because that may
// not ask any more.
func ofStranger(r *metering.Record) bool {
	return (r.Key == "" || r.Barred) && !r.Internal && r.Outcome == metering.OutcomeRejected
}
