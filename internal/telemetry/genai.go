package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Names of OpenTelemetry's semantic conventions for generative AI, all that this project uses of them. They are from
// https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-metrics.md and gen-ai-spans.md,
// read 2026-11; both are in development there, so that a name may change: then it changes here.
const (
	MetricDuration      = "gen_ai.client.operation.duration"
	MetricTokens        = "gen_ai.client.token.usage"
	MetricFirstChunk    = "gen_ai.client.operation.time_to_first_chunk"
	MetricPerChunk      = "gen_ai.client.operation.time_per_output_chunk"
	AttrOperation       = attribute.Key("gen_ai.operation.name")
	AttrProvider        = attribute.Key("gen_ai.provider.name")
	AttrModel           = attribute.Key("gen_ai.request.model")
	AttrTokenType       = attribute.Key("gen_ai.token.type")
	AttrStream          = attribute.Key("gen_ai.request.stream")
	AttrFirstChunk      = attribute.Key("gen_ai.response.time_to_first_chunk")
	AttrInputTokens     = attribute.Key("gen_ai.usage.input_tokens")
	AttrOutputTokens    = attribute.Key("gen_ai.usage.output_tokens")
	AttrCachedTokens    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	AttrWrittenTokens   = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	AttrReasoningTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	AttrErrorType       = attribute.Key("error.type")
	AttrStatus          = attribute.Key("http.response.status_code")
	// Other is the value of an attribute whose own value is not of a bounded set.
	Other = "_OTHER"
)

// Names of the gateway's own, if the conventions have none.
const (
	AttrGatewayProvider = attribute.Key("modelgate.provider") // name of the Provider object
	AttrUpstreamModel   = attribute.Key("modelgate.upstream_model")
	AttrKey             = attribute.Key("modelgate.key_id")
	AttrOrganization    = attribute.Key("modelgate.organization")
	AttrProject         = attribute.Key("modelgate.project")
	AttrOutcome         = attribute.Key("modelgate.outcome")
	AttrAttempts        = attribute.Key("modelgate.attempts")
	AttrCost            = attribute.Key("modelgate.cost_usd")
	AttrBatch           = attribute.Key("modelgate.batch_id")
	AttrLines           = attribute.Key("modelgate.batch.lines")
	AttrLinesCompleted  = attribute.Key("modelgate.batch.lines_completed")
	AttrLinesFailed     = attribute.Key("modelgate.batch.lines_failed")
)

// providerNames are the conventions' names of vendors that are called otherwise here. The others keep their own.
var providerNames = map[string]string{
	"azure": "azure.ai.openai", "bedrock": "aws.bedrock", "gemini": "gcp.gemini", "vertex": "gcp.vertex_ai",
	"mistral": "mistral_ai", "moonshot": "moonshot_ai", "xai": "x_ai",
}

// ProviderName returns the conventions' name of a vendor.
func ProviderName(vendor string) string {
	if name, ok := providerNames[vendor]; ok {
		return name
	}
	return vendor
}

// OperationName returns the conventions' name of one of the gateway's operations. What they have no name for keeps its
// own.
func OperationName(operation string) string {
	switch operation {
	case "chat/completions", "responses", "messages", "generateContent", "streamGenerateContent":
		return "chat"
	case "completions":
		return "text_completion"
	case "embedContent", "batchEmbedContents":
		return "embeddings"
	}
	return operation
}

// Boundaries of buckets as the conventions have them.
func secondBuckets() []float64 {
	return []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
}

func tokenBuckets() []float64 {
	return []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
}

// GenAI are the conventions' metrics of a client of models, which the gateway is to its providers.
type GenAI struct {
	duration, firstChunk, perChunk metric.Float64Histogram
	tokens                         metric.Int64Histogram
}

// NewGenAI makes the metrics.
func NewGenAI(m metric.Meter) (*GenAI, error) {
	var g GenAI
	for _, h := range []struct {
		to         *metric.Float64Histogram
		name, help string
	}{
		{&g.duration, MetricDuration, "Time from a request's headers to its answer's end."},
		{&g.firstChunk, MetricFirstChunk, "Time from a request's headers to the first chunk of a streamed answer."},
		{&g.perChunk, MetricPerChunk, "Time from one chunk of a streamed answer to the next."},
	} {
		made, err := m.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.help),
			metric.WithExplicitBucketBoundaries(secondBuckets()...))
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", h.name, err)
		}
		*h.to = made
	}
	var err error
	g.tokens, err = m.Int64Histogram(MetricTokens, metric.WithUnit("{token}"),
		metric.WithDescription("Tokens of a request that ended well, by type."),
		metric.WithExplicitBucketBoundaries(tokenBuckets()...))
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w", MetricTokens, err)
	}
	return &g, nil
}

// Labels distinguish requests. Each must have few values.
type Labels struct {
	Operation string // one of the gateway's
	Vendor    string
	Provider  string // name of the Provider object
	Model     string
	ErrorType string // empty: there was none
}

// A Series records requests of the same Labels. It is safe for concurrent use.
type Series struct {
	of                          *GenAI
	ended, plain, input, output []metric.RecordOption
}

// Series returns what records requests of labels. Making one costs more than using it: keep it.
func (g *GenAI) Series(l Labels) *Series {
	common := []attribute.KeyValue{
		AttrOperation.String(OperationName(l.Operation)), AttrProvider.String(ProviderName(l.Vendor)),
		AttrGatewayProvider.String(l.Provider),
	}
	if l.Model != "" {
		common = append(common, AttrModel.String(l.Model))
	}
	with := func(more ...attribute.KeyValue) []metric.RecordOption {
		return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(append(more, common...)...))}
	}
	s := &Series{of: g, plain: with(), input: with(AttrTokenType.String("input")),
		output: with(AttrTokenType.String("output"))}
	if s.ended = s.plain; l.ErrorType != "" {
		s.ended = with(AttrErrorType.String(l.ErrorType))
	}
	return s
}

// Ended records how long a request took.
func (s *Series) Ended(d time.Duration) {
	s.of.duration.Record(context.Background(), d.Seconds(), s.ended...)
}

// Tokens records what a request used. It is for requests that ended well, as the conventions say.
func (s *Series) Tokens(input, output int64) {
	s.of.tokens.Record(context.Background(), input, s.input...)
	s.of.tokens.Record(context.Background(), output, s.output...)
}

// FirstChunk records how long the first chunk of a stream took.
func (s *Series) FirstChunk(d time.Duration) {
	s.of.firstChunk.Record(context.Background(), d.Seconds(), s.plain...)
}

// Chunks records n chunks that came together, gap after those before.
func (s *Series) Chunks(n int, gap time.Duration) {
	for range n {
		s.of.perChunk.Record(context.Background(), gap.Seconds(), s.plain...)
		gap = 0
	}
}
