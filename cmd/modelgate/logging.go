package main

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// logFlags are the flags that every command has for its log, which goes to stderr.
type logFlags struct {
	Level  string `enum:"debug,info,warn,error" default:"info" env:"MODELGATE_LOG_LEVEL" help:"Minimum log level: ${enum}."`
	Format string `enum:"auto,json,console" default:"auto" env:"MODELGATE_LOG_FORMAT" help:"Log format: ${enum}. auto is console on a terminal and json otherwise. On a terminal, run writes a short line for each request, unless the format is given."`
}

// logger returns the logger. A person who watches gets a short line for each request, and some of the other lines.
func (f logFlags) logger(stderr io.Writer, watched bool, shows func(zapcore.Entry) bool) (*zap.Logger, error) {
	o := telemetry.LogOptions{Level: f.Level, Format: f.Format}
	if f.Format == "auto" {
		o.Format = "json"
		if console.IsTerminal(stderr) {
			o.Format = "console"
			if watched {
				o.Short = &telemetry.Short{Shows: shows, Request: func(at time.Time, fields map[string]any) string {
					return console.For(stderr).Line(console.Logged(at, fields))
				}}
			}
		}
	}
	return telemetry.NewLogger(stderr, o)
}

// ownLogger returns the logger of the command that was chosen.
func (c *commands) ownLogger(stderr io.Writer, command string) (*zap.Logger, error) {
	return c.Log.logger(stderr, command == "run", func(e zapcore.Entry) bool {
		return c.Run.Verbose || c.Log.Level == "debug" || e.Level >= zapcore.ErrorLevel ||
			e.Level == zapcore.WarnLevel && e.LoggerName != process.Logger // which warns when it is stopped
	})
}
