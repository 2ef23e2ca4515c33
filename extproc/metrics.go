package extproc

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memo"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/turns"
	"github.com/modelgate/modelgate/internal/usage"
)

// metrics are the metrics of the service. Labels are bounded: providers, operations, outcomes, and models in the
// operator's configuration. Keys and clients' names of models are never labels.
type metrics struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	tried    *prometheus.CounterVec
	cost     *prometheus.CounterVec
	refusals *prometheus.CounterVec
	guards   *prometheus.CounterVec
	cached   *prometheus.CounterVec
	saved    *prometheus.CounterVec
	compared *prometheus.CounterVec
	degraded prometheus.Counter
	shed     *prometheus.CounterVec
	doubtful *prometheus.CounterVec
	genai    *telemetry.GenAI
	known    *memo.Memo[seriesKey, *series]
}

func newMetrics(r prometheus.Registerer, meter metric.Meter) *metrics {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	genai, err := telemetry.NewGenAI(meter)
	if err != nil {
		panic(err) // as MustRegister: names are constants
	}
	m := &metrics{
		genai: genai,
		known: memo.New[seriesKey, *series](maxKnown),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_requests_total",
			Help: "Requests by provider, operation, outcome and class of status."}, []string{"provider", "operation", "outcome",
			"status"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_tokens_total",
			Help: "Tokens that were charged, by provider, operation and kind."}, []string{"provider", "operation", "kind"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_retries_total",
			Help: "Attempts after the first, by the provider that answered in the end."}, []string{"provider"}),
		tried: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_provider_attempts_total",
			Help: "Attempts by provider and result: served, failed, rate_limited, cancelled."},
			[]string{"provider", "result"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_cost_usd_total",
			Help: "What requests cost, in US dollars, by provider and operation, as far as there are prices."},
			[]string{"provider", "operation"}),
		guards: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_guard_findings_total",
			Help: "What rules of guardrails have found, by rule, mode (observe, mask, block) and side (request, answer)."},
			[]string{"rule", "mode", "side"}),
		cached: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_cache_requests_total",
			Help: "Requests that a response cache is for, by cache and result: hit, shared, similar, miss, bypass."},
			[]string{"cache", "result"}),
		compared: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_cache_comparisons_total",
			Help: "Requests that a response cache was to compare with similar ones, by cache and result: done, failed, skipped."},
			[]string{"cache", "result"}),
		saved: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_cache_saved_usd_total",
			Help: "What the answers of response caches have cost before, in US dollars, by cache."}, []string{"cache"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_limit_refusals_total",
			Help: "Requests that a limit or a budget refused, by what it counts and whose it is."},
			[]string{"domain", "scope"}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_shed_total",
			Help: "Requests that were refused, and answers that were lost, because there was no room, by what ran out: memory, bytes, key_bytes, guardrails."}, []string{"reason"}),
		doubtful: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_usage_doubtful_total",
			Help: "Requests whose provider reported more tokens than the model can have, by provider."}, []string{"provider"}),
		degraded: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_limits_degraded_total",
			Help: "Requests on which this process decided alone, because the store of limits was away."}),
	}
	for _, why := range []string{"memory", "bytes", "key_bytes", "guardrails"} { // so that rates begin
		m.shed.WithLabelValues(why)
	}
	r.MustRegister(m.shed, m.requests, m.tokens, m.attempts, m.tried, m.cost, m.refusals, m.guards, m.degraded,
		m.cached, m.saved, m.compared, m.doubtful)
	return m
}

// A seriesKey has the labels by which requests are counted.
type seriesKey struct {
	provider, vendor, operation, model string
	outcome                            metering.Outcome // empty while the request runs
	status                             int
}

// A series has the counters of a seriesKey. Finding each counter by its labels would cost more than everything else.
type series struct {
	requests, attempts, cost prometheus.Counter
	tried                    prometheus.Counter            // the last attempt
	tokens                   [usage.All]prometheus.Counter // nil for kinds without a type
	genai                    *telemetry.Series
}

// maxKnown bounds the cached series. The metrics themselves have their own bounds.
const maxKnown = 4096

// of returns the series of a request. If outcome is empty, only the provider is known.
func (m *metrics) of(r *metering.Record, outcome metering.Outcome, status int) *series {
	key := seriesKey{provider: r.Provider, vendor: r.Vendor, operation: r.Operation, model: r.Label, outcome: outcome,
		status: status}
	if s, ok := m.known.Find(key); ok {
		return s
	}
	return m.known.Keep(key, m.newSeries(key))
}

func (m *metrics) newSeries(k seriesKey) *series {
	s := &series{}
	if k.outcome != "" {
		s.requests = m.requests.WithLabelValues(k.provider, k.operation, string(k.outcome), statusClass(k.status))
		if k.provider != "" {
			s.tried = m.tried.WithLabelValues(k.provider, attemptResult(k.outcome, k.status))
		}
	}
	if k.provider == "" {
		return s
	}
	s.attempts, s.cost = m.attempts.WithLabelValues(k.provider), m.cost.WithLabelValues(k.provider, k.operation)
	m.doubtful.WithLabelValues(k.provider) // so that there is a rate from the first one on
	for i, f := range usage.Fields {
		if f.Type != "" {
			s.tokens[i] = m.tokens.WithLabelValues(k.provider, k.operation, f.Type)
		}
	}
	s.genai = m.genai.Series(telemetry.Labels{
		Operation: k.operation, Vendor: k.vendor, Provider: k.provider, Model: k.model,
		ErrorType: errorType(k.outcome, k.status),
	})
	return s
}

// hasStatusLabel reports whether a status of an error has its own label. Providers may send any status, which would
// make too many series.
func hasStatusLabel(status int) bool {
	switch status {
	case 400, 401, 402, 403, 404, 408, 409, 413, 415, 422, 424, 429, 499, 500, 501, 502, 503, 504, 529:
		return true
	}
	return false
}

// errorType returns why a request failed, from a bounded set: the status of the provider or the gateway, or else the
// outcome. Codes of errors are not bounded, because vendors have their own.
func errorType(o metering.Outcome, status int) string {
	switch o {
	case "", metering.OutcomeFinished:
		return ""
	case metering.OutcomeRejected, metering.OutcomeFailed:
		switch {
		case hasStatusLabel(status):
			return strconv.Itoa(status)
		case status >= 400 && status <= 599:
			return statusClass(status)
		}
	}
	return string(o)
}

// Degraded implements exchange.Observer.
func (m *metrics) Degraded() { m.degraded.Inc() }

// Shed implements exchange.Observer.
func (m *metrics) Shed(why string) { m.shed.WithLabelValues(why).Inc() }

// Refused implements exchange.Observer.
func (m *metrics) Refused(domain, scope string) { m.refusals.WithLabelValues(domain, scope).Inc() }

// Chunks implements exchange.Observer.
func (m *metrics) Chunks(r *metering.Record, n int, gap time.Duration) {
	m.of(r, "", 0).genai.Chunks(n, gap)
}

// observe counts a settled exchange.
func (m *metrics) observe(r *metering.Record) {
	s := m.of(r, r.Outcome, r.Status)
	s.requests.Inc()
	for of, n := range r.Guards {
		m.guards.WithLabelValues(of.Rule, of.Mode, of.Side).Add(float64(n))
	}
	if c := r.Cache; c != nil {
		m.cached.WithLabelValues(c.Name, string(c.Result)).Inc()
		m.saved.WithLabelValues(c.Name).Add(float64(c.Saved) / float64(usage.Dollar))
		if c.Compared != "" {
			m.compared.WithLabelValues(c.Name, c.Compared).Inc()
		}
	}
	if r.Provider == "" {
		return
	}
	s.genai.Ended(r.End.Sub(r.Start))
	if !r.FirstChunk.IsZero() {
		s.genai.FirstChunk(r.FirstChunk.Sub(r.Start))
	}
	if r.Outcome == metering.OutcomeFinished && !r.Usage.IsZero() {
		s.genai.Tokens(r.Usage.PromptTokens, r.Usage.CompletionTokens)
	}
	if r.Doubtful {
		m.doubtful.WithLabelValues(r.Provider).Inc()
	}
	s.tried.Inc()
	for i := range len(r.Tries) - 1 {
		t := &r.Tries[i]
		m.tried.WithLabelValues(t.Provider, attemptResult(metering.OutcomeFailed, t.Status)).Inc()
	}
	if r.Attempts > 1 {
		s.attempts.Add(float64(r.Attempts - 1))
	}
	if r.Cost > 0 {
		s.cost.Add(float64(r.Cost) / float64(usage.Dollar))
	}
	used := usage.Used{Usage: r.Usage}
	for i := range s.tokens {
		if s.tokens[i] != nil {
			s.tokens[i].Add(float64(*used.At(usage.Kind(i))))
		}
	}
}

// attemptResult returns how an attempt went that ended its exchange.
func attemptResult(o metering.Outcome, status int) string {
	switch o {
	case metering.OutcomeFailed, metering.OutcomeTruncated, metering.OutcomeGateway:
		if status == http.StatusTooManyRequests {
			return "rate_limited"
		}
		return "failed"
	case metering.OutcomeCancelled, metering.OutcomeCut:
		return "cancelled"
	}
	return "served"
}

// statusClass returns "2xx" for 200 to 299, and so on, or "none" if no status was sent.
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

// newTurnGauge exports the requests on which guardrails work for long, in a state.
func newTurnGauge(of *turns.Turns, state string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_guardrail_requests",
		Help:        "Requests and answers that guardrails work on for long, or that wait for it.",
		ConstLabels: prometheus.Labels{"state": state}},
		func() float64 {
			running, waiting := of.Load()
			if state == "waiting" {
				return float64(waiting)
			}
			return float64(running)
		})
}

// newBodyGauge exports the bytes of held bodies.
func newBodyGauge(b *inflight.Bytes) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_body_bytes",
		Help: "Bytes of large bodies that are held, as they came and translated."},
		func() float64 { return float64(b.Held()) })
}
