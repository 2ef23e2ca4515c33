package parts

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// HTTPStop is how long requests may go on when the process ends.
const HTTPStop = 2 * time.Second

// ServeUntil serves until ctx ends, and then waits for grace for the requests that are being served.
func ServeUntil(ctx context.Context, server *http.Server, l net.Listener, grace time.Duration) error {
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(l, "", "")
			return
		}
		served <- server.Serve(l)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(ending) != nil {
		_ = server.Close() // what is cut here has had its time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
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
