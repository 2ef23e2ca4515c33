// Package telemetry builds the logger and the registry of metrics of a process.
//
// There is no global logger and no global registry. Both are made once, in cmd/modelgate, and
// passed to what uses them. Secrets are kept out of logs by their type (package secret), not by a filter here.
package telemetry

import (
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogOptions says how much is logged, and how it looks.
type LogOptions struct {
	Level  string // debug, info, warn or error
	Format string // json, or console for people
	Short  *Short // of a console that somebody watches; nil: every line in the format
}

// NewLogger returns a logger that writes to w, one line for each entry and one Write for each line. The lines of
// [AccessLog] are the exception.
func NewLogger(w io.Writer, o LogOptions) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(o.Level)
	if err != nil {
		return nil, fmt.Errorf("the log level %q is not debug, info, warn or error", o.Level)
	}
	var encoder zapcore.Encoder
	switch o.Format {
	case "json":
		c := zap.NewProductionEncoderConfig()
		c.TimeKey, c.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
		encoder = zapcore.NewJSONEncoder(c)
	case "console":
		c := zap.NewDevelopmentEncoderConfig()
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		// The place of a log call in the code does not help operators.
		c.CallerKey = zapcore.OmitKey
		encoder = zapcore.NewConsoleEncoder(c)
	default:
		return nil, fmt.Errorf("the log format %q is not json or console", o.Format)
	}
	lines := &gathering{w: w}
	var core zapcore.Core = prompt{zapcore.NewCore(encoder, lines, level)}
	if o.Short != nil {
		core = &short{core, *o.Short, lines}
	}
	return zap.New(core), nil
}

// NewRegistry returns a registry that holds the metrics of the Go runtime and of this process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}
