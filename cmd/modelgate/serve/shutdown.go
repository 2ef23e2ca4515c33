package serve

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
)

// shutdownFlags are for processes behind a load balancer, which needs a while to notice that one is ending.
type shutdownFlags struct {
	ShutdownDelay time.Duration `default:"0s" help:"How long the process continues to serve after a termination signal, while /readyz reports that it is not ready. Set it longer than the load balancer needs to notice."`
}

// Run starts the parts of a process, and stops them when one has ended by itself or, some time after ctx has ended,
// when the process may end.
func (f shutdownFlags) Run(ctx context.Context, log *zap.Logger,
	start func(*parts.Parts, *parts.Ending) error) error {
	p, e := parts.New(log), &parts.Ending{}
	err := start(p, e)
	if err == nil {
		err = f.wait(ctx, p, e)
	}
	return errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
}

func (f shutdownFlags) wait(ctx context.Context, p *parts.Parts, e *parts.Ending) error {
	if err := p.Wait(ctx); err != nil {
		return err
	}
	e.Begun.Store(true)
	delayed, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.ShutdownDelay)
	defer cancel()
	return p.Wait(delayed)
}
