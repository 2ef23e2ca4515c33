package main

import (
	"io"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// logFlags are the flags that every command has for its log, which goes to stderr.
type logFlags struct {
	Level  string `enum:"debug,info,warn,error" default:"info" env:"MODELGATE_LOG_LEVEL" help:"Minimum log level: ${enum}."`
	Format string `enum:"auto,json,console" default:"auto" env:"MODELGATE_LOG_FORMAT" help:"Log format: ${enum}. auto is console on a terminal and json otherwise."`
}

func (f logFlags) logger(stderr io.Writer) (*zap.Logger, error) {
	format := f.Format
	if format == "auto" {
		format = "json"
		if console.IsTerminal(stderr) {
			format = "console"
		}
	}
	return telemetry.NewLogger(stderr, telemetry.LogOptions{Level: f.Level, Format: format})
}
