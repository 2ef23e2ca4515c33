package snapshot

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	nacks    *prometheus.CounterVec
	revision *prometheus.GaugeVec
	clients  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		nacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modelgate_xds_nacks_total",
			Help: "Responses that a client has refused.",
		}, []string{"role", "type"}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "modelgate_xds_revision",
			Help: "Revision of the configuration that clients of the role are served.",
		}, []string{"role"}),
		clients: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "modelgate_xds_clients",
			Help: "Clients of the role that are connected.",
		}, []string{"role"}),
	}
	for _, c := range []prometheus.Collector{m.nacks, m.revision, m.clients} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of xDS: %w", err)
		}
	}
	return m, nil
}
