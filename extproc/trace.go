package extproc

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/usage"
)

// endSpan ends the span of an exchange. The span has no text of a prompt or an answer, no header and no path. It has a
// model's name only if the configuration has it.
func endSpan(r *metering.Record) {
	if r.Span == nil || !r.Span.IsRecording() {
		return
	}
	r.Span.SetName(spanName(r))
	for i := 1; i < len(r.Tries); i++ {
		r.Span.AddEvent("retry", trace.WithTimestamp(r.Tries[i].At), trace.WithAttributes(
			telemetry.AttrGatewayProvider.String(r.Tries[i].Provider), telemetry.AttrAttempts.Int(i+1),
			telemetry.AttrErrorType.String(r.Tries[i-1].Error)))
	}
	r.Span.SetAttributes(append(callAttributes(r), requestAttributes(r)...)...)
	if failed := errorType(r.Outcome, r.Status); failed != "" {
		r.Span.SetAttributes(telemetry.AttrErrorType.String(failed))
		r.Span.SetStatus(codes.Error, "")
	}
	r.Span.End(trace.WithTimestamp(r.End))
}

// spanName returns one of as few names as the metrics' labels.
func spanName(r *metering.Record) string {
	switch {
	case r.Operation == "":
		return "request"
	case r.Label == "", r.Label == telemetry.Other:
		return telemetry.OperationName(r.Operation)
	}
	return telemetry.OperationName(r.Operation) + " " + r.Label
}

// callAttributes describe the call of a model.
func callAttributes(r *metering.Record) []attribute.KeyValue {
	if r.Label == "" && r.Provider == "" {
		return nil
	}
	a := make([]attribute.KeyValue, 0, 24) // with room for those of the request
	a = append(a, telemetry.AttrOperation.String(telemetry.OperationName(r.Operation)),
		telemetry.AttrStream.Bool(r.Stream))
	if r.Label != "" {
		a = append(a, telemetry.AttrModel.String(r.Label))
	}
	if r.Provider != "" {
		a = append(a, telemetry.AttrProvider.String(telemetry.ProviderName(r.Vendor)),
			telemetry.AttrGatewayProvider.String(r.Provider))
	}
	if r.Label != "" && r.Label != telemetry.Other && r.Upstream != "" { // otherwise the client has invented it
		a = append(a, telemetry.AttrUpstreamModel.String(r.Upstream))
	}
	if !r.FirstChunk.IsZero() {
		a = append(a, telemetry.AttrFirstChunk.Float64(r.FirstChunk.Sub(r.Start).Seconds()))
	}
	if u := &r.Usage; !u.IsZero() {
		a = append(a, telemetry.AttrInputTokens.Int64(u.PromptTokens), telemetry.AttrOutputTokens.Int64(u.CompletionTokens),
			telemetry.AttrCachedTokens.Int64(u.CachedTokens), telemetry.AttrWrittenTokens.Int64(u.CacheWriteTokens),
			telemetry.AttrReasoningTokens.Int64(u.ReasoningTokens))
	}
	if r.Attempts > 0 {
		a = append(a, telemetry.AttrAttempts.Int(r.Attempts))
	}
	if r.Priced {
		a = append(a, telemetry.AttrCost.Float64(float64(r.Cost)/float64(usage.Dollar)))
	}
	return a
}

// requestAttributes describe the request. They do not include its id, because a client may have chosen it.
func requestAttributes(r *metering.Record) []attribute.KeyValue {
	a := make([]attribute.KeyValue, 0, 5)
	a = append(a, telemetry.AttrOutcome.String(string(r.Outcome)), telemetry.AttrStatus.Int(r.Status))
	for _, known := range [...]attribute.KeyValue{
		telemetry.AttrKey.String(r.Key),
		telemetry.AttrOrganization.String(r.Organization), telemetry.AttrProject.String(r.Project),
	} {
		if known.Value.AsString() != "" {
			a = append(a, known)
		}
	}
	return a
}
