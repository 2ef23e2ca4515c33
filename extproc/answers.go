package extproc

import "github.com/prometheus/client_golang/prometheus"

// An answerCollector measures the response caches of the current configuration.
type answerCollector struct {
	*Server

	bytes *prometheus.Desc
}

func newAnswerCollector(s *Server) answerCollector {
	return answerCollector{s, prometheus.NewDesc("modelgate_cache_bytes",
		"Answers, and vectors of their requests, that a response cache keeps in the memory of this process.", []string{"cache"}, nil)}
}

// Describe implements prometheus.Collector.
func (c answerCollector) Describe(to chan<- *prometheus.Desc) { to <- c.bytes }

// Collect implements prometheus.Collector.
func (c answerCollector) Collect(to chan<- prometheus.Metric) {
	config := c.config.current.Load()
	if config == nil {
		return
	}
	for _, cache := range config.Caches {
		to <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(cache.Bytes()), cache.Name())
	}
}
