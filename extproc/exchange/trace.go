package exchange

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/extproc/message"
)

// Headers of W3C Trace Context. Baggage, which says what a client likes, goes nowhere.
const ()

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

// beginSpan has the exchange join the trace that the request's headers name. What they say is ignored where it is
// malformed. Where no spans are made, the request only passes on what it came with.
//
// The span is of the kind CLIENT, as the GenAI conventions have it: what it describes is the call of a model.
func (x *Exchange) beginSpan(h Headers) {
	ctx := context.Background()
	if h.Get(message.HeaderTraceParent) != "" {
		sent := h // it escapes, which h itself shall not
		ctx = propagation.TraceContext{}.Extract(ctx, carrier{&sent})
	} else if x.env.Tracer == nil {
		return
	}
	if x.env.Tracer == nil {
		x.record.Span = trace.SpanFromContext(ctx)
		return
	}
	_, x.record.Span = x.env.Tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(x.record.Start))
}

// TraceContext returns the headers by which what the request leads to joins its trace; none where there is no trace.
func (x *Exchange) TraceContext() Headers {
	if x.record.Span == nil || !x.record.Span.SpanContext().IsValid() {
		return nil
	}
	var h Headers
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), x.record.Span), carrier{&h})
	return h
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
