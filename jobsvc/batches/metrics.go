package batches

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/modelgate/modelgate/jobsvc/job"
)

// metrics are the service's metrics. Names from clients are never labels.
type metrics struct {
	lines    *prometheus.CounterVec
	inFlight prometheus.Gauge
	retries  prometheus.Counter
	batches  *prometheus.CounterVec
	segments prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_batch_lines_total",
			Help: "Lines of batches whose answers are durable, by outcome: completed or failed."}, []string{"outcome"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_batch_lines_in_flight",
			Help: "Lines of batches that are being asked."}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_batch_line_retries_total",
			Help: "Tries of lines after the first."}),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_batches_total",
			Help: "Batches that ended, by status."}, []string{"status"}),
		segments: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_batch_segments_total",
			Help: "Segments of answers that were committed."}),
	}
	for _, c := range []prometheus.Collector{m.lines, m.inFlight, m.retries, m.batches, m.segments} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) committed(g *group) {
	m.segments.Inc()
	m.lines.WithLabelValues("completed").Add(float64(g.completed))
	m.lines.WithLabelValues("failed").Add(float64(g.failed))
}

func (m *metrics) ended(s job.BatchStatus) { m.batches.WithLabelValues(string(s)).Inc() }
