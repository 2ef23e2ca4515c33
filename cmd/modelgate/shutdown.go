package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// shutdownFlags are of processes that others reach through something that balances, which needs a while to learn that
// one of them ends.
type shutdownFlags struct {
	ShutdownDelay time.Duration `default:"0s" help:"How long the process continues to serve after a termination signal, while /readyz reports that it is not ready. Set it longer than the load balancer needs to notice."`
}

// wait returns when a part has ended by itself, or, some time after ctx has, when the process may end.
func (f shutdownFlags) wait(ctx context.Context, p *parts, e *ending) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	e.begun.Store(true)
	delayed, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.ShutdownDelay)
	defer cancel()
	return p.wait(delayed)
}

// An ending tells whether the process has begun to end.
type ending struct{ begun atomic.Bool }

// Ready reports that no more requests are to be sent here.
func (e *ending) Ready() error {
	if e.begun.Load() {
		return errors.New("it is ending")
	}
	return nil
}

// handler has answers say that their connection ends, once the process has begun to: the next request goes elsewhere.
func (e *ending) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
