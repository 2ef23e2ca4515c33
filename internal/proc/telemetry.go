package proc

import (
	"context"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// StartTelemetry starts the telemetry of a process. It stops with p: start it before what is to be measured to its
// end.
func StartTelemetry(ctx context.Context, p *parts.Parts, service string,
	log *zap.Logger) (*telemetry.Telemetry, error) {
	log = log.Named("telemetry")
	t, err := telemetry.Start(ctx, telemetry.Options{Service: service, Version: Version(), Log: log})
	if err != nil {
		return nil, err
	}
	p.Add("telemetry", func(ctx context.Context) error {
		if err := t.Stop(ctx); err != nil { // no reason for the process to fail
			log.Warn("the last telemetry is lost", zap.Error(err))
		}
		return nil
	})
	return t, nil
}
