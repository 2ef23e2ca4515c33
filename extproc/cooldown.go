package extproc

import (
	"net/http"
	"time"

	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// attempt takes Envoy's record of an attempt that a provider refused. Of one that Envoy then made elsewhere no exchange is told.
func (s *Server) attempt(e *accesslogdatav3.HTTPAccessLogEntry) {
	config := s.config.current.Load()
	if config == nil {
		return
	}
	p := config.Providers[envoy.ProviderOf(e.GetCommonProperties().GetUpstreamCluster())]
	if p == nil {
		return
	}
	h := make(http.Header, 2)
	for name, value := range e.GetResponse().GetResponseHeaders() {
		h.Set(name, value)
	}
	s.env.Cooldown.Refused(p, int(e.GetResponse().GetResponseCode().GetValue()), provider.RetryAfter(h), s.env.Now())
}

// A coolingCollector tells which providers are cooling.
type coolingCollector struct {
	*Server
	desc *prometheus.Desc
}

func newCoolingCollector(s *Server) coolingCollector {
	return coolingCollector{s, prometheus.NewDesc("modelgate_provider_cooling",
		"1 while a provider is tried last because it has refused requests for its load, by provider.", []string{"provider"}, nil)}
}

// Describe implements prometheus.Collector.
func (c coolingCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c coolingCollector) Collect(to chan<- prometheus.Metric) {
	config := c.config.current.Load()
	if config == nil {
		return
	}
	now := c.env.Now()
	for name, p := range config.Providers {
		cooling := 0.0
		if c.env.Cooldown.Until(p, now).After(time.Time{}) {
			cooling = 1
		}
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, cooling, name)
	}
}
