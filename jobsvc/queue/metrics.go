package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metricsInterval is the maximum age of the queue's metrics.
const metricsInterval = 5 * time.Second

// metrics are this replica's view of the queue, which all replicas share: use the maximum over replicas, not the sum.
type metrics struct {
	items    *prometheus.GaugeVec
	wait     *prometheus.GaugeVec
	failures *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them if r is not nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		items: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "modelgate_queue_items",
			Help: "Items of the queue of work, as this replica sees it, by kind and state: running at any replica, waiting for one, or due later."}, []string{"kind", "state"}),
		wait: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "modelgate_queue_wait_seconds",
			Help: "For how long the item that has waited longest has been due, as this replica sees it, by kind; 0 where none waits."}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_queue_failures_total",
			Help: "Failures of work at this replica, each of which is tried again, by kind."}, []string{"kind"}),
	}
	if r != nil {
		r.MustRegister(m.items, m.wait, m.failures)
	}
	return m
}

// updateMetrics sets the metrics, but not more often than metricsInterval, because it reads every item.
func (d *dispatcher) updateMetrics(now time.Time) {
	if now.Sub(d.told) < metricsInterval {
		return
	}
	d.told = now
	var running, waiting, later int
	var longest time.Duration
	for id, e := range d.items {
		switch {
		case e.taken || d.running[id]:
			running++
		case !e.item.due(now):
			later++
		default:
			waiting++
			since := e.since
			if due := time.Unix(e.item.NotBefore, 0); due.After(since) {
				since = due
			}
			longest = max(longest, now.Sub(since))
		}
	}
	m := d.queue.metrics
	m.items.WithLabelValues(d.kind, "running").Set(float64(running))
	m.items.WithLabelValues(d.kind, "waiting").Set(float64(waiting))
	m.items.WithLabelValues(d.kind, "later").Set(float64(later))
	m.wait.WithLabelValues(d.kind).Set(longest.Seconds())
	m.failures.WithLabelValues(d.kind) // exists before the first failure
}
