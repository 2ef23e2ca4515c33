package proc

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// ShutdownFlags are of processes that others reach through something that balances, which needs a while to learn that
// one of them ends.
type ShutdownFlags struct {
	ShutdownDelay time.Duration `default:"0s" help:"How long the process continues to serve after a termination signal, while /readyz reports that it is not ready. Set it longer than the load balancer needs to notice."`
}

// Wait returns when a part has ended by itself, or, some time after ctx has, when the process may end.
func (f ShutdownFlags) Wait(ctx context.Context, p *Parts, e *Ending) error {
	if err := p.Wait(ctx); err != nil {
		return err
	}
	e.Begun.Store(true)
	delayed, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.ShutdownDelay)
	defer cancel()
	return p.Wait(delayed)
}

// An Ending tells whether the process has begun to end.
type Ending struct{ Begun atomic.Bool }

// Ready reports that no more requests are to be sent here.
func (e *Ending) Ready() error {
	if e.Begun.Load() {
		return errors.New("it is ending")
	}
	return nil
}

// Handler has answers say that their connection ends, once the process has begun to: the next request goes elsewhere.
func (e *Ending) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.Begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
