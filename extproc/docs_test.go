package extproc

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zapcore"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// full is a record of which everything is known.
func full(t *testing.T) *metering.Record {
	at := time.Unix(1, 0)
	id, err := trace.TraceIDFromHex(parentTrace)
	require.NoError(t, err)
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}})
	return &metering.Record{
		ID: "1", RequestID: "r", Start: at, FirstByte: at, FirstChunk: at, End: at, Method: "POST", Path: chats,
		Internal: true, Charge: "c",
		Operation: "chat/completions", Model: "m", Label: "m",
		Subject:  request.Subject{Key: "k", KeyName: "n", Organization: "o", Project: "p", User: "u"},
		Provider: "a", Vendor: "openai", Upstream: "up",
		Attempts: 1, Stream: true, Status: 200, Sent: 1, Usage: openai.Usage{PromptTokens: 1}, Estimated: true,
		Doubtful: true, Cost: 1,
		Priced: true,
		Reason: "reset", RefusedBy: "request", KeyHint: "cdef", Policy: "office/short instead of smart",
		Outcome: metering.OutcomeFailed, Error: &openai.Error{Code: "c", Type: "t"},
		Span: trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), own)),
	}
}

// table returns the names in the first column of the table in a section of docs/observability.md.
func table(t *testing.T, section string) []string {
	text, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, ok)
	rest, _, _ = strings.Cut(rest, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(rest, -1) {
		for _, name := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(row[1], -1) {
			names = append(names, name[1])
		}
	}
	return names
}

func TestFieldsOfTheLogAreDocumented(t *testing.T) {
	e := zapcore.NewMapObjectEncoder()
	require.NoError(t, (&line{full(t), &envoyFacts{}}).MarshalLogObject(e))
	require.ElementsMatch(t, table(t, "Logs"), append(slices.Collect(maps.Keys(e.Fields)), "time"))
}

func TestAttributesOfSpansAreDocumented(t *testing.T) {
	r := full(t)
	got := []string{string(telemetry.AttrErrorType)}
	for _, a := range append(callAttributes(r), requestAttributes(r)...) {
		got = append(got, string(a.Key))
	}
	require.ElementsMatch(t, table(t, "Traces"), got)
}
