package call

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/extproc/message"
)

// A carrier makes headers accessible to OpenTelemetry's propagator. Baggage is not forwarded, because it can contain
// any data of the client.
type carrier struct{ *Headers }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string { return c.Headers.Get(name) }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(name, value string) {
	*c.Headers = append(*c.Headers, Header{Name: name, Value: value})
}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return nil }

// BeginSpan joins the exchange to the trace in the request's headers. Malformed headers are ignored. If no spans are
// made, the request forwards its own headers.
//
// The span has the kind CLIENT, as in the GenAI conventions, because it describes the call of a model.
func (c *Call) BeginSpan(h Headers) {
	ctx := context.Background()
	if h.Get(message.HeaderTraceParent) != "" {
		sent := h // it escapes, and h must not
		ctx = propagation.TraceContext{}.Extract(ctx, carrier{&sent})
	} else if c.Env.Tracer == nil {
		return
	}
	if c.Env.Tracer == nil {
		c.Record.Span = trace.SpanFromContext(ctx)
		return
	}
	_, c.Record.Span = c.Env.Tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(c.Record.Start))
}

// TraceContext returns the headers that join further requests to the trace, or none without a trace.
func (c *Call) TraceContext() Headers {
	if c.Record.Span == nil || !c.Record.Span.SpanContext().IsValid() {
		return nil
	}
	var h Headers
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), c.Record.Span), carrier{&h})
	return h
}

// Chunks records n chunks of a stream that arrived together.
func (c *Call) Chunks(n int) {
	if n <= 0 {
		return
	}
	now := c.Env.Now()
	if c.Record.FirstChunk.IsZero() {
		c.Record.FirstChunk, c.lastChunk = now, now
		n--
	}
	if n > 0 && c.Env.Observer != nil {
		c.Env.Observer.Chunks(&c.Record, n, now.Sub(c.lastChunk))
	}
	c.lastChunk = now
}
