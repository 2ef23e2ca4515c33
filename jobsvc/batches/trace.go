package batches

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/modelgate/modelgate/internal/telemetry"
)

// maxTraced is how many lines of one run of a batch have spans: nobody can read a trace of fifty thousand.
const maxTraced = 100

// A lineTrace has the lines of one run of a batch join its span. It is safe for concurrent use.
type lineTrace struct {
	parent trace.SpanContext
	lines  atomic.Int64
}

// context returns ctx with the span that a line's request joins. Lines after the first belong to the same trace,
// but are not sampled.
func (t *lineTrace) context(ctx context.Context) context.Context {
	at := t.parent
	if t.lines.Add(1) > maxTraced {
		at = at.WithTraceFlags(at.TraceFlags().WithSampled(false))
	}
	return trace.ContextWithSpanContext(ctx, at)
}

// traced runs the lines of a batch under a span, which ends when this replica asks no more of them. A batch that is
// taken up by another has a span for each.
func (w *work) traced(ctx context.Context, run func(*lineTrace) error) error {
	tracer := w.s.Tracer
	if tracer == nil {
		tracer = noop.Tracer{}
	}
	_, span := tracer.Start(ctx, "batch", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			telemetry.AttrBatch.String(w.rec.ID), telemetry.AttrKey.String(w.rec.Value.Key)))
	defer span.End()
	err := run(&lineTrace{parent: span.SpanContext()})
	counts := w.rec.Value.Counts
	span.SetAttributes(telemetry.AttrLines.Int(counts.Total), telemetry.AttrLinesCompleted.Int(counts.Completed),
		telemetry.AttrLinesFailed.Int(counts.Failed))
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	return err
}
