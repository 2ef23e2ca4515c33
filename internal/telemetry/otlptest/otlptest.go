// Package otlptest is an OpenTelemetry collector in the test process, for tests of the exported data.
//
// Data is exported in the background. Stop the telemetry first, or wait.
package otlptest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// A Collector keeps what it is sent. It is safe for concurrent use.
type Collector struct {
	// Address is its host:port.
	Address string

	mu      sync.Mutex // guards what follows
	spans   []*tracev1.ResourceSpans
	metrics []*metricsv1.ResourceMetrics
}

// Start starts a collector that speaks OTLP over gRPC until the test ends.
func Start(t testing.TB) *Collector {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &Collector{Address: l.Addr().String()}
	s := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(s, traces{Collector: c})
	collectormetrics.RegisterMetricsServiceServer(s, metrics{Collector: c})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	return c
}

// Use has the environment of the test name the collector.
func (c *Collector) Use(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+c.Address)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
}

type traces struct {
	collectortrace.UnimplementedTraceServiceServer
	*Collector
}

// Export implements the service.
func (c traces) Export(_ context.Context,
	r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, r.GetResourceSpans()...)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

type metrics struct {
	collectormetrics.UnimplementedMetricsServiceServer
	*Collector
}

// Export implements the service.
func (c metrics) Export(_ context.Context,
	r *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics = append(c.metrics, r.GetResourceMetrics()...)
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

// Resources returns who has sent spans, and what they have sent with them.
func (c *Collector) Resources() []*tracev1.ResourceSpans {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Spans returns the spans that have come.
func (c *Collector) Spans() (spans []*tracev1.Span) {
	for _, r := range c.Resources() {
		for _, s := range r.GetScopeSpans() {
			spans = append(spans, s.GetSpans()...)
		}
	}
	return spans
}

// Metrics returns the metrics that have come, by name. Of one that has come more than once it is the last.
func (c *Collector) Metrics() map[string]*metricsv1.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]*metricsv1.Metric{}
	for _, r := range c.metrics {
		for _, s := range r.GetScopeMetrics() {
			for _, m := range s.GetMetrics() {
				all[m.GetName()] = m
			}
		}
	}
	return all
}

// Attributes returns attributes by name, as Go's own types.
func Attributes(attributes []*commonv1.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			all[a.GetKey()] = v.IntValue
		case *commonv1.AnyValue_BoolValue:
			all[a.GetKey()] = v.BoolValue
		case *commonv1.AnyValue_DoubleValue:
			all[a.GetKey()] = v.DoubleValue
		}
	}
	return all
}
