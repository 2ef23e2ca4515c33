package telemetry

import "github.com/prometheus/client_golang/prometheus"

// newBuild tells which part of the gateway a process is: what else it shows of itself, such as its memory, every Go
// process shows under the same names.
func newBuild(o Options) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_build_info",
		Help:        "Always 1, by the part of the gateway that the process is, and its version.",
		ConstLabels: prometheus.Labels{"component": o.Service, "version": o.Version}})
	g.Set(1)
	return g
}
