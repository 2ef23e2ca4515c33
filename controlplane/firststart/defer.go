package firststart

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/parts"
)

// configureAgain is how often what could not be stored is tried again.
const configureAgain = 5 * time.Second

// ConfigureOrDefer is Configure. If etcd is full, what is stored already is served, and what could not be stored is
// when there is room.
func (o *Options) ConfigureOrDefer(ctx context.Context, p *parts.Parts) error {
	err := o.Configure(ctx)
	if !IsStoreFull(err) {
		return err
	}
	o.Log.Error("etcd is full: the gateway serves the stored configuration, and applies the command line when etcd has room",
		zap.Error(err), zap.String("remedy", etcdspace.Remedy))
	p.Serve("configuration that waits for room in etcd", func(ctx context.Context) error {
		tick := time.NewTicker(configureAgain)
		defer tick.Stop()
		for IsStoreFull(err) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
			if err = o.Configure(ctx); err != nil && !IsStoreFull(err) {
				o.Log.Error("applying the configuration of the command line failed", zap.Error(err))
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
	return nil
}

// IsStoreFull reports whether the admin API could not store something because etcd is full.
func IsStoreFull(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.Code == openai.CodeStoreFull
}
