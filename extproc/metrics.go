package extproc

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/usage"
)

// metrics are what the service counts. Labels are bounded: providers, operations and outcomes, never keys or what clients call
// models.
type metrics struct {
	requests  *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	firstByte *prometheus.HistogramVec
	attempts  *prometheus.CounterVec
	cost      *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	degraded  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	// From a fast cached answer to the ten minutes of a reasoning model.
	seconds := []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_requests_total",
			Help: "Requests by provider, operation, outcome and class of status."}, []string{"provider", "operation", "outcome", "status"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_tokens_total",
			Help: "Tokens that were charged, by provider, operation and kind."}, []string{"provider", "operation", "kind"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "modelgate_request_duration_seconds",
			Help: "Time from the request's headers to the answer's end.", Buckets: seconds}, []string{"provider", "operation"}),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "modelgate_first_byte_seconds",
			Help: "Time from the request's headers to the first byte of the answer's body.", Buckets: seconds}, []string{"provider", "operation"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_retries_total",
			Help: "Attempts after the first, by the provider that answered in the end."}, []string{"provider"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_cost_usd_total",
			Help: "What requests cost, in US dollars, by provider and operation, as far as there are prices."}, []string{"provider", "operation"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_limit_refusals_total",
			Help: "Requests that a limit or a budget refused, by what it counts and whose it is."}, []string{"domain", "scope"}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_limits_degraded_total",
			Help: "Requests on which this process decided alone, because the store of limits was away."}),
	}
	r.MustRegister(m.requests, m.tokens, m.duration, m.firstByte, m.attempts, m.cost, m.refusals, m.degraded)
	return m
}

// Degraded implements exchange.Observer.
func (m *metrics) Degraded() { m.degraded.Inc() }

// Refused implements exchange.Observer.
func (m *metrics) Refused(domain, scope string) { m.refusals.WithLabelValues(domain, scope).Inc() }

// observe counts an exchange that is settled.
func (m *metrics) observe(r *exchange.Record) {
	m.requests.WithLabelValues(r.Provider, r.Operation, string(r.Outcome), statusClass(r.Status)).Inc()
	if r.Provider == "" {
		return
	}
	m.duration.WithLabelValues(r.Provider, r.Operation).Observe(r.End.Sub(r.Start).Seconds())
	if !r.FirstByte.IsZero() {
		m.firstByte.WithLabelValues(r.Provider, r.Operation).Observe(r.FirstByte.Sub(r.Start).Seconds())
	}
	if r.Attempts > 1 {
		m.attempts.WithLabelValues(r.Provider).Add(float64(r.Attempts - 1))
	}
	if r.Cost > 0 {
		m.cost.WithLabelValues(r.Provider, r.Operation).Add(float64(r.Cost) / float64(usage.Dollar))
	}
	for _, t := range [...]struct {
		kind  string
		count int64
	}{
		{"prompt", r.Usage.PromptTokens}, {"completion", r.Usage.CompletionTokens},
		{"cached", r.Usage.CachedTokens}, {"reasoning", r.Usage.ReasoningTokens},
	} {
		m.tokens.WithLabelValues(r.Provider, r.Operation, t.kind).Add(float64(t.count))
	}
}

// statusClass is "2xx" for 200 to 299, and so on; "none" where no status was sent.
func statusClass(status int) string {
	if status < 100 || status > 599 {
		return "none"
	}
	return strconv.Itoa(status/100) + "xx"
}

func cutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}
