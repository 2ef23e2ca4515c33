package archive

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	records  *prometheus.GaugeVec // by kind and place
	segments *prometheus.GaugeVec // by kind
	failures prometheus.Counter
	passed   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		records: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "modelgate_jobs_records",
			Help: "Records of jobs, by kind and by where they are (etcd or archive), as the replica that archives has last seen them.",
		}, []string{"kind", "place"}),
		segments: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "modelgate_jobs_archive_segments",
			Help: "Segments of the archive, by kind of jobs, as the replica that archives has last seen them.",
		}, []string{"kind"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "modelgate_jobs_archive_failures_total",
			Help: "Passes of archiving a kind of jobs that have failed, in whole or in part.",
		}),
		passed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "modelgate_jobs_archive_last_success_timestamp_seconds",
			Help: "When this replica has last archived all that was due. 0: never.",
		}),
	}
	return m, errors.Join(r.Register(m.records), r.Register(m.segments), r.Register(m.failures), r.Register(m.passed))
}

func (m *metrics) tell(kind string, kept, archived, segments int) {
	m.records.WithLabelValues(kind, "etcd").Set(float64(kept))
	m.records.WithLabelValues(kind, "archive").Set(float64(archived))
	m.segments.WithLabelValues(kind).Set(float64(segments))
}
