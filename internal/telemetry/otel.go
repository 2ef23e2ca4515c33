package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/otlptranslator"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

const (
	// scope is OpenTelemetry's name of the instrumentation.
	scope = "github.com/modelgate/modelgate"
	// maxSeries bounds the series of each OpenTelemetry metric, whatever its attributes say. What is above counts under
	// the one attribute otel.metric.overflow.
	maxSeries = 2000
	// lastExport is how long the last telemetry of a process may take to get out.
	lastExport = 5 * time.Second
)

// Options say whose telemetry it is.
type Options struct {
	Service string // unless OTEL_SERVICE_NAME says otherwise
	Version string
	Log     *zap.Logger // for errors of the export
}

// A Telemetry has a process's measurements: the metrics of Prometheus's library in Registry, OpenTelemetry's, and
// spans. All metrics are gathered for /metrics. If the standard variables OTEL_EXPORTER_OTLP_... name an endpoint,
// they and the spans are sent there too. It is safe for concurrent use.
type Telemetry struct {
	Registry *prometheus.Registry

	otel   *prometheus.Registry // of meters alone: what goes to OTLP from Registry must not go there twice
	meters *sdkmetric.MeterProvider
	spans  *sdktrace.TracerProvider // nil: they are sent nowhere
}

// Start starts the telemetry of a process. Nothing waits for its endpoint: while that is unavailable or slow, spans
// are dropped, and metrics are sent later.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	// The one global that the SDK has no other way for: without it, failures to export go to standard error as plain
	// text.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Warn("telemetry is not exported", zap.Error(err))
	}))
	of, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", o.Service), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", rand.Text()),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Telemetry{Registry: NewRegistry(), otel: prometheus.NewRegistry()}
	t.Registry.MustRegister(newBuild(o))
	readers, err := t.readers(ctx)
	if err != nil {
		return nil, fmt.Errorf("export of metrics: %w", err)
	}
	t.meters = sdkmetric.NewMeterProvider(append(readers, sdkmetric.WithResource(of),
		sdkmetric.WithCardinalityLimit(maxSeries), sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))...)
	exporter, err := spanExporter(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export of traces: %w", err), t.meters.Shutdown(ctx))
	}
	if exporter != nil {
		t.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(of), sdktrace.WithBatcher(exporter))
	}
	return t, nil
}

// readers are what takes the metrics: Prometheus always, and OTLP if it is wanted.
func (t *Telemetry) readers(ctx context.Context) ([]sdkmetric.Option, error) {
	scraped, err := otelprom.New(otelprom.WithRegisterer(t.otel), otelprom.WithoutTargetInfo(),
		otelprom.WithoutScopeInfo(),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, err
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(scraped)}
	protocol, err := otlp("METRICS")
	if err != nil || protocol == "" {
		return options, err
	}
	var pushed sdkmetric.Exporter
	if protocol == protocolGRPC {
		pushed, err = otlpmetricgrpc.New(ctx)
	} else {
		pushed, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	bridge := prombridge.NewMetricProducer(prombridge.WithGatherer(t.Registry))
	return append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(pushed, sdkmetric.WithProducer(bridge)))), nil
}

// spanExporter returns what sends spans, or nil if they are wanted nowhere.
func spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch protocol, err := otlp("TRACES"); {
	case err != nil || protocol == "":
		return nil, err
	case protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// Values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// otlp returns the protocol by which a signal is sent, or "" if the environment names no endpoint for it, or says
// that it is sent nowhere. The exporters read the other variables themselves.
func otlp(signal string) (protocol string, err error) {
	get := func(name string) string {
		return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	switch exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); {
	case os.Getenv("OTEL_SDK_DISABLED") == "true", exporter == "none", get("ENDPOINT") == "":
		return "", nil
	case exporter != "" && exporter != "otlp":
		return "", fmt.Errorf("OTEL_%s_EXPORTER: must be otlp or none", signal)
	}
	switch protocol = cmp.Or(get("PROTOCOL"), protocolHTTP); protocol {
	case protocolGRPC, protocolHTTP:
		return protocol, nil
	}
	return "", fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: must be %s or %s", protocolGRPC, protocolHTTP)
}

// Gather implements prometheus.Gatherer over all metrics of the process.
func (t *Telemetry) Gather() ([]*dto.MetricFamily, error) {
	return prometheus.Gatherers{t.Registry, t.otel}.Gather()
}

// Meter returns what makes OpenTelemetry's metrics.
func (t *Telemetry) Meter() metric.Meter { return t.meters.Meter(scope) }

// Tracer returns what makes spans, or nil if they are sent nowhere.
func (t *Telemetry) Tracer() trace.Tracer {
	if t.spans == nil {
		return nil
	}
	return t.spans.Tracer(scope)
}

// Stop sends what was not sent yet, for some seconds at most.
func (t *Telemetry) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastExport)
	defer cancel()
	metrics := make(chan error, 1)
	go func() { metrics <- t.meters.Shutdown(ctx) }() // what takes spans may be slow, and another than what takes metrics
	var spans error
	if t.spans != nil {
		spans = t.spans.Shutdown(ctx)
	}
	return errors.Join(spans, <-metrics)
}
