package batches

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
)

func TestTheFirstLinesOfABatchAreSampled(t *testing.T) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled})
	lines := &lineTrace{parent: parent}
	sampled := 0
	for range 3 * maxTraced {
		at := trace.SpanContextFromContext(lines.context(t.Context()))
		require.Equal(t, parent.TraceID(), at.TraceID())
		require.Equal(t, parent.SpanID(), at.SpanID())
		if at.IsSampled() {
			sampled++
		}
	}
	require.Equal(t, maxTraced, sampled)

	none := &lineTrace{} // no spans are made
	require.False(t, trace.SpanContextFromContext(none.context(t.Context())).IsValid())
}
