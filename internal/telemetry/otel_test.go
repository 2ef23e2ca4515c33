package telemetry_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/telemetry/otlptest"
)

func start(t *testing.T) *telemetry.Telemetry {
	m, err := telemetry.Start(t.Context(), telemetry.Options{Service: "modelgate-test", Version: "v1", Log: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Stop(context.Background()) }) // where a test stops it itself, it is stopped already
	return m
}

// gathered returns what is on /metrics, by name.
func gathered(t *testing.T, g prometheus.Gatherer) map[string]*dto.MetricFamily {
	families, err := g.Gather()
	require.NoError(t, err)
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

func record(t *testing.T, m *telemetry.Telemetry) {
	g, err := telemetry.NewGenAI(m.Meter())
	require.NoError(t, err)
	s := g.Series(telemetry.Labels{Operation: "chat/completions", Vendor: "bedrock", Provider: "aws", Model: "smart",
		ErrorType: "429"})
	s.Ended(1500 * time.Millisecond)
	s.FirstChunk(30 * time.Millisecond)
	s.Chunks(3, 50*time.Millisecond)
	s.Tokens(100, 7)
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func TestGenAIMetricsForPrometheus(t *testing.T) {
	m := start(t)
	record(t, m)
	all := gathered(t, m)
	require.Contains(t, all, "go_goroutines")
	require.NotContains(t, all, "target_info")
	plain := map[string]string{"gen_ai_operation_name": "chat", "gen_ai_provider_name": "aws.bedrock",
		"gen_ai_request_model": "smart", "modelgate_provider": "aws"}
	with := func(name, value string) map[string]string {
		labels := map[string]string{name: value}
		for k, v := range plain {
			labels[k] = v
		}
		return labels
	}
	for _, c := range []struct {
		name   string
		labels map[string]string
		count  uint64
		sum    float64
	}{
		{"gen_ai_client_operation_duration_seconds", with("error_type", "429"), 1, 1.5},
		{"gen_ai_client_operation_time_to_first_chunk_seconds", plain, 1, 0.03},
		{"gen_ai_client_operation_time_per_output_chunk_seconds", plain, 3, 0.05},
		{"gen_ai_client_token_usage", with("gen_ai_token_type", "input"), 1, 100},
		{"gen_ai_client_token_usage", with("gen_ai_token_type", "output"), 1, 7},
	} {
		require.Contains(t, all, c.name)
		found := false
		for _, metric := range all[c.name].GetMetric() {
			if labels := labelsOf(metric); fmt.Sprint(labels) == fmt.Sprint(c.labels) {
				found = true
				require.Equal(t, c.count, metric.GetHistogram().GetSampleCount(), c.name)
				require.InDelta(t, c.sum, metric.GetHistogram().GetSampleSum(), 1e-9, c.name)
				require.Len(t, metric.GetHistogram().GetBucket(), 14, "the conventions' boundaries")
			}
		}
		require.True(t, found, "%s has %v", c.name, all[c.name])
	}
}

func TestMetricsAndSpansArePushed(t *testing.T) {
	collector := otlptest.Start(t)
	collector.Use(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod")
	m := start(t)
	record(t, m)
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "modelgate_of_the_test_total"},
		func() float64 { return 7 }))
	_, span := m.Tracer().Start(t.Context(), "chat smart")
	span.End()
	require.NoError(t, m.Stop(t.Context()))

	require.Len(t, collector.Spans(), 1)
	of := otlptest.Attributes(collector.Resources()[0].GetResource().GetAttributes())
	require.Equal(t, "modelgate-test", of["service.name"])
	require.Equal(t, "prod", of["deployment.environment.name"])
	require.NotEmpty(t, of["service.instance.id"])

	all := collector.Metrics()
	for name, unit := range map[string]string{
		"gen_ai.client.operation.duration": "s", "gen_ai.client.token.usage": "{token}",
		"gen_ai.client.operation.time_to_first_chunk": "s", "gen_ai.client.operation.time_per_output_chunk": "s",
	} {
		require.Contains(t, all, name)
		require.Equal(t, unit, all[name].GetUnit(), name)
		require.NotEmpty(t, all[name].GetDescription(), name)
		require.IsType(t, &metricsv1.Metric_Histogram{}, all[name].GetData(), name)
	}
	require.Equal(t, map[string]any{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "aws.bedrock",
		"gen_ai.request.model": "smart",
		"modelgate.provider":   "aws", "error.type": "429"},
		otlptest.Attributes(all["gen_ai.client.operation.duration"].GetHistogram().GetDataPoints()[0].GetAttributes()))
	require.Contains(t, all, "modelgate_of_the_test_total", "what Prometheus's library counts goes too")
	require.Contains(t, all, "go_goroutines")
	for name := range all {
		require.False(t, strings.HasPrefix(name, "gen_ai_client"), "%s is there twice", name)
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   map[string]string
		spans bool
		fails bool
	}{
		{"nothing is set", nil, false, false},
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, false},
		{"one of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, true, false},
		{"one of metrics", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"}, false, false},
		{"disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
			false, false},
		{"no traces", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
			false, false},
		{"a protocol that there is not", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
			"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, true},
		{"an exporter that there is not", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
			"OTEL_TRACES_EXPORTER": "zipkin"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			m, err := telemetry.Start(t.Context(), telemetry.Options{Service: "s", Log: zap.NewNop()})
			require.Equal(t, c.fails, err != nil, err)
			if err != nil {
				return
			}
			require.Equal(t, c.spans, m.Tracer() != nil)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_ = m.Stop(gone) // there is nothing at that address
		})
	}
}

func TestSamplingIsThatOfTheEnvironment(t *testing.T) {
	collector := otlptest.Start(t)
	collector.Use(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	m := start(t)
	_, span := m.Tracer().Start(t.Context(), "x")
	require.False(t, span.IsRecording())
	require.True(t, span.SpanContext().IsValid(), "it is still passed on")
	span.End()
	require.NoError(t, m.Stop(t.Context()))
	require.Empty(t, collector.Spans())
}

// A collector that takes connections and says nothing is worse than one that is away.
func TestACollectorThatHangsHoldsNothingUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "500")
	core, logs := observer.New(zap.WarnLevel)
	m, err := telemetry.Start(t.Context(), telemetry.Options{Service: "s", Log: zap.New(core)})
	require.NoError(t, err)
	tracer := m.Tracer()
	spans := func(n int) time.Duration {
		began := time.Now()
		for range n {
			_, span := tracer.Start(context.Background(), "chat smart")
			span.End()
		}
		return time.Since(began)
	}
	spans(10_000) // more than the queue holds
	before := heap()
	require.Less(t, spans(100_000), 10*time.Second)
	require.Less(t, heap(), before+4<<20, "spans that nobody takes are dropped")

	began := time.Now()
	require.Error(t, m.Stop(t.Context()))
	require.Less(t, time.Since(began), 15*time.Second)
	require.NotEmpty(t, logs.FilterMessage("telemetry is not exported").All())
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Whatever gets into the attributes, the series of a metric are bounded.
func TestSeriesAreBounded(t *testing.T) {
	m := start(t)
	g, err := telemetry.NewGenAI(m.Meter())
	require.NoError(t, err)
	for i := range 100_000 {
		g.Series(telemetry.Labels{Operation: "chat/completions", Vendor: "openai", Provider: "a",
			Model: fmt.Sprint("made-up-", i)}).Ended(time.Second)
	}
	series := gathered(t, m)["gen_ai_client_operation_duration_seconds"].GetMetric()
	require.LessOrEqual(t, len(series), 2000)
	total, overflow := uint64(0), false
	for _, s := range series {
		total += s.GetHistogram().GetSampleCount()
		overflow = overflow || labelsOf(s)["otel_metric_overflow"] == "true"
	}
	require.EqualValues(t, 100_000, total, "none is lost")
	require.True(t, overflow)
}
