package exchange

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/extproc/message"
)

// Headers of W3C Trace Context. Baggage is not forwarded, because it can contain any data of the client.
const ()

// A carrier makes headers accessible to OpenTelemetry's propagator.
type carrier struct{ *Headers }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string { return c.Headers.Get(name) }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(name, value string) {
	*c.Headers = append(*c.Headers, Header{Name: name, Value: value})
}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return nil }

// beginSpan joins the exchange to the trace in the request's headers. Malformed headers are ignored. If no spans are
// made, the request forwards its own headers.
//
// The span has the kind CLIENT, as in the GenAI conventions, because it describes the call of a model.
func (x *Exchange) beginSpan(h Headers) {
	ctx := context.Background()
	if h.Get(message.HeaderTraceParent) != "" {
		sent := h // it escapes, and h must not
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

// TraceContext returns the headers that join further requests to the trace, or none without a trace.
func (x *Exchange) TraceContext() Headers {
	if x.record.Span == nil || !x.record.Span.SpanContext().IsValid() {
		return nil
	}
	var h Headers
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), x.record.Span), carrier{&h})
	return h
}

// chunks records n chunks of a stream that arrived together.
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
