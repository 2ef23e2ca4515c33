package xdsclient

import "github.com/prometheus/client_golang/prometheus"

// metrics say whether a process follows the control plane. Nothing that it has received for long need not be old: the
// control plane sends changes.
type metrics struct{ connected, received prometheus.Gauge }

// newMetrics makes the metrics of one client. Several of one process differ by role.
func newMetrics(r prometheus.Registerer, role string) *metrics {
	labels := prometheus.Labels{"role": role}
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_xds_connected", ConstLabels: labels,
			Help: "1 while the control plane answers this process, by the role that it has there; else its last configuration holds."}),
		received: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_xds_received_timestamp_seconds",
			ConstLabels: labels,
			Help:        "When the control plane last sent configuration, in Unix time; 0 where it never has."}),
	}
	r.MustRegister(m.connected, m.received)
	return m
}
