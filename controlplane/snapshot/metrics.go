package snapshot

import (
	"fmt"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/prometheus/client_golang/prometheus"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
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
	// Metrics of a role exist from the start, with a value of 0.
	for _, role := range roles() {
		m.clients.WithLabelValues(role)
	}
	for _, typ := range []string{resource.ClusterType, resource.ListenerType, resource.RouteType, resource.SecretType,
		resource.ExtensionConfigType} {
		m.nacks.WithLabelValues(envoy.RoleEnvoy, typ)
	}
	return m, nil
}

func roles() []string { return []string{envoy.RoleEnvoy, envoy.RoleExtProc, envoy.RoleJobs} }

// A statusCollector exports a Publisher's Status and Clients.
type statusCollector struct {
	*Publisher
	ailing, errors *prometheus.Desc
}

func newStatusCollector(p *Publisher) statusCollector {
	return statusCollector{
		p,
		prometheus.NewDesc("modelgate_xds_clients_ailing",
			"Clients that have not answered what they were sent (behind), or have refused something of it (refused), by role.",
			[]string{"role", "state"}, nil),
		prometheus.NewDesc("modelgate_config_errors",
			"Objects of the configuration of which the newest form has no effect, by kind.", []string{"kind"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c statusCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.ailing
	to <- c.errors
}

// Collect implements prometheus.Collector.
func (c statusCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	behind, refused := map[string]int{}, map[string]int{}
	for _, client := range c.Clients() {
		switch {
		case client.Refused != "":
			refused[client.Role]++
		case client.Behind:
			behind[client.Role]++
		}
	}
	for _, role := range roles() {
		gauge(c.ailing, behind[role], role, "behind")
		gauge(c.ailing, refused[role], role, "refused")
	}
	wrong := map[string]int{"": 0} // for errors without an object
	for _, k := range configv1.Kinds() {
		wrong[k.Name] = 0
	}
	for o := range c.Status().Errors {
		wrong[o.Kind]++
	}
	for kind, n := range wrong {
		gauge(c.errors, n, kind)
	}
}
