package exchange

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/internal/telemetry"
)

// Headers of W3C Trace Context. Baggage, which says what a client likes, goes nowhere.
const (
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
)

// A carrier shows headers to OpenTelemetry's propagator.
type carrier struct{ *Headers }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string { return c.Headers.Get(name) }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(name, value string) {
	*c.Headers = append(*c.Headers, Header{Name: name, Value: value})
}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return nil }

// beginSpan has the exchange join the trace that the request's headers name. What they say is ignored where it is malformed. Where
// no spans are made, the request only passes on what it came with.
//
// The span is of the kind CLIENT, as the GenAI conventions have it: what it describes is the call of a model.
func (x *Exchange) beginSpan(h Headers) {
	ctx := context.Background()
	if h.Get(headerTraceParent) != "" {
		sent := h // it escapes, which h itself shall not
		ctx = propagation.TraceContext{}.Extract(ctx, carrier{&sent})
	} else if x.env.Tracer == nil {
		return
	}
	if x.env.Tracer == nil {
		x.record.Span = trace.SpanFromContext(ctx)
		return
	}
	_, x.record.Span = x.env.Tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(x.record.Start))
}

// traceContext returns the headers by which what the request leads to joins its trace; none where there is no trace.
func (x *Exchange) traceContext() Headers {
	if x.record.Span == nil || !x.record.Span.SpanContext().IsValid() {
		return nil
	}
	var h Headers
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), x.record.Span), carrier{&h})
	return h
}

// traceTargets keeps the trace's headers for those of the targets that are to get them.
func (x *Exchange) traceTargets(p *Plan) {
	if slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Provider.Config.GetTraceContext() }) {
		p.trace = x.traceContext()
	}
}

// carryTrace adds the trace's headers to the request of an attempt, or has those of an attempt before it, which another
// provider was to get, taken away.
func (p *Plan) carryTrace(t Target, a *Attempt) {
	switch {
	case len(p.trace) == 0:
	case t.Provider.Config.GetTraceContext():
		a.Header = append(a.Header, p.trace...)
	default:
		a.Remove = []string{headerTraceParent, headerTraceState}
	}
}

// label returns what metrics and spans call a model that a client has named: one of a bounded set of names, and none that a
// client could make up. A fine-tuned model, whose name has words of a client's, is called as the model that was tuned.
func (c *Config) label(name string) string {
	x := c.indexed()
	m := c.Models[name]
	if m == nil {
		m = x.tuned[name]
	}
	if tuned := m.GetFineTuned(); tuned != nil {
		if name = tuned.GetBaseModel(); c.Models[name].GetFineTuned() != nil {
			return telemetry.Other
		}
	}
	if i, ok := x.at(name); ok {
		return x.listed[i].name
	}
	return telemetry.Other
}

// chunks notes that n chunks of a stream came together.
func (x *Exchange) chunks(n int) {
	if n <= 0 {
		return
	}
	now := x.env.Now()
	if x.record.FirstChunk.IsZero() {
		x.record.FirstChunk, x.lastChunk = now, now
		n--
	}
	if n > 0 && x.env.Observer != nil {
		x.env.Observer.Chunks(&x.record, n, now.Sub(x.lastChunk))
	}
	x.lastChunk = now
}
