package extproc

import (
	"net/http"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/provider"
)

// attempt handles Envoy's record of an attempt that failed. Exchanges do not see attempts that Envoy has retried. Of
// several processes that have the record, one counts the attempt.
func (s *Server) attempt(e *accesslogdatav3.HTTPAccessLogEntry, counts bool) {
	config := s.config.current.Load()
	if config == nil {
		return
	}
	p := config.Providers[envoy.ProviderOf(e.GetCommonProperties().GetUpstreamCluster())]
	if p == nil {
		return
	}
	tried := triedOf(e)
	switch tried.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, routing.StatusOverloaded:
		if counts {
			s.refusals.WithLabelValues(p.Config.GetName(), strconv.Itoa(tried.Status)).Inc()
		}
		tried.Cool = s.refusedForLoad(p, e, tried.Status)
	}
	if e.GetRequest().GetRequestMethod() == corev3.RequestMethod_POST {
		s.journal.attempt(tried) // a list of models has no other provider to fall back to
	}
}

// suspect notes that a provider has broken an answer off before its content.
func (s *Server) suspect(provider string) {
	if config := s.config.current.Load(); config != nil && config.Providers[provider] != nil {
		s.env.Suspects.Suspect(config.Providers[provider], s.env.Now())
	}
}

// refusedForLoad handles an attempt that a provider refused for its load, and returns how long it is left alone.
func (s *Server) refusedForLoad(p *routing.Provider, e *accesslogdatav3.HTTPAccessLogEntry, status int) time.Duration {
	h := make(http.Header, 2)
	for name, value := range e.GetResponse().GetResponseHeaders() {
		h.Set(name, value)
	}
	return s.env.Cooldown.Refused(p, status, provider.RetryAfter(h), s.env.Now())
}

// newRefusals counts refused attempts, because requests_total counts only the last attempt of each request. The
// statuses are those that Envoy logs.
func newRefusals() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_provider_refusals_total",
		Help: "Attempts that a provider refused for its load, by provider and status: 429, 503 or 529."},
		[]string{"provider", "status"})
}

// A providerCollector exports the providers' cooldowns, and the requests at providers with a bound on concurrency.
type providerCollector struct {
	*Server
	cooling, requests *prometheus.Desc
}

func newProviderCollector(s *Server) providerCollector {
	return providerCollector{
		s,
		prometheus.NewDesc("modelgate_provider_cooling",
			"1 while a provider is tried last because it has refused requests for its load, by provider.", []string{"provider"},
			nil),
		prometheus.NewDesc("modelgate_provider_requests",
			"Requests at a provider whose concurrency is bounded (active), and those that wait for their turn (waiting).",
			[]string{"provider", "state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c providerCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.cooling
	to <- c.requests
}

// Collect implements prometheus.Collector.
func (c providerCollector) Collect(to chan<- prometheus.Metric) {
	config := c.config.current.Load()
	if config == nil {
		return
	}
	now := c.env.Now()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for name, p := range config.Providers {
		cooling := 0.0
		if c.env.Cooldown.Until(p, now).After(time.Time{}) {
			cooling = 1
		}
		gauge(c.cooling, cooling, name)
		if active, waiting, ok := c.env.Load(name); ok {
			gauge(c.requests, float64(active), name, "active")
			gauge(c.requests, float64(waiting), name, "waiting")
		}
	}
}
