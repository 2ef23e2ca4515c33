package serve

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
)

// EchoCmd is the command echo.
type EchoCmd struct {
	Listen string `default:"127.0.0.1:9100" help:"Address to listen on, without TLS: host:port or unix:///path."`
}

// Run serves until ctx ends.
func (c *EchoCmd) Run(ctx context.Context, log *zap.Logger) error {
	l, err := proc.Listen(c.Listen)
	if err != nil {
		return err
	}
	p := parts.New(log)
	fakeprovider.Start(p, l, log)
	log.Info("echo provider started", zap.Stringer("listen", l.Addr()))
	return errors.Join(p.Wait(ctx), p.Stop(context.WithoutCancel(ctx)))
}
