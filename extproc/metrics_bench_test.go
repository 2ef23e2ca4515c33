package extproc

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// BenchmarkObserve is what the metrics of one exchange cost: of one that is not streamed, and of a stream.
func BenchmarkObserve(b *testing.B) {
	at := time.Unix(1, 0)
	unary := metering.Record{
		Operation: "chat/completions", Provider: "a", Vendor: "openai", Model: "smart", Label: "smart", Attempts: 1,
		Status: 200,
		Start:  at, FirstByte: at.Add(time.Second), End: at.Add(2 * time.Second), Outcome: metering.OutcomeFinished,
		Cost:  1000,
		Usage: openai.Usage{PromptTokens: 90, CompletionTokens: 110},
	}
	stream := unary
	stream.Stream, stream.FirstChunk = true, at.Add(time.Second)
	measured, err := telemetry.Start(b.Context(), telemetry.Options{Service: "test"})
	if err != nil {
		b.Fatal(err)
	}
	m := newMetrics(prometheus.NewRegistry(), measured.Meter())
	for name, r := range map[string]*metering.Record{"unary": &unary, "stream": &stream} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.observe(r)
			}
		})
	}
	b.Run("chunk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Chunks(&stream, 1, 20*time.Millisecond)
		}
	})
}
