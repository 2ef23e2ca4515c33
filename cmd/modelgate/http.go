package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/etcdspace"
)

// httpStop is how long requests to the admin address may go on when the process ends.
const httpStop = 2 * time.Second

// serveHTTP starts the server of an admin address, without TLS where there is no configuration of it. Bodies are
// bounded by the handlers, which know how large theirs are, and so is how long an answer may take.
func serveHTTP(p *parts, l net.Listener, secure *tls.Config, handler http.Handler, log *zap.Logger) {
	server := newHTTPServer(secure, handler, log)
	p.serve("admin address", func(ctx context.Context) error { return serveUntil(ctx, server, l, httpStop) })
}

func newHTTPServer(secure *tls.Config, handler http.Handler, log *zap.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		TLSConfig:         secure,
		ReadHeaderTimeout: 10 * time.Second,
		// Of handlers that set no deadline of their own, such as that of /metrics, to which somebody may send a body.
		ReadTimeout:    time.Minute,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       zap.NewStdLog(log.Named("admin")),
	}
}

// serveUntil serves until ctx ends, and then waits for grace for the requests that are being served.
func serveUntil(ctx context.Context, server *http.Server, l net.Listener, grace time.Duration) error {
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

// A note is what /readyz says besides, or "". It changes nothing of the status: were every control plane out of
// service because etcd fills, nobody could make room, and without its jobs a gateway still serves chat.
type note func() (what string, severe bool)

// noteOf is that etcd fills.
func noteOf(room *etcdspace.Room) note {
	return func() (string, bool) { return room.State().Warning() }
}

// healthHandler answers /healthz while the process lives, /readyz while ready returns nil, and /metrics.
func healthHandler(ready func() error, metrics prometheus.Gatherer, notes ...note) *http.ServeMux {
	mux := probesHandler(ready, notes...)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// probesHandler is healthHandler without /metrics.
func probesHandler(ready func() error, notes ...note) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		status, text := http.StatusOK, "ready"
		if err := ready(); err != nil {
			status, text = http.StatusServiceUnavailable, admincli.OneLine(err.Error())
		}
		for _, note := range notes {
			switch what, severe := note(); {
			case severe:
				text += "\n" + admincli.SaysError + admincli.OneLine(what)
			case what != "":
				text += "\n" + admincli.SaysWarning + admincli.OneLine(what)
			}
		}
		say(w, status, text)
	})
	return mux
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client may be gone.
	_, _ = io.WriteString(w, text+"\n")
}

// allReady returns the first error of the checks.
func allReady(checks ...func() error) func() error {
	return func() error {
		for _, check := range checks {
			if err := check(); err != nil {
				return fmt.Errorf("not ready: %w", err)
			}
		}
		return nil
	}
}
