package proc

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

// HTTPStop is how long requests to the admin address may go on when the process ends.
const HTTPStop = 2 * time.Second

// ServeHTTP starts the server of an admin address, without TLS where there is no configuration of it. Bodies are
// bounded by the handlers, which know how large theirs are, and so is how long an answer may take.
func ServeHTTP(p *Parts, l net.Listener, secure *tls.Config, handler http.Handler, log *zap.Logger) {
	server := newHTTPServer(secure, handler, log)
	p.Serve("admin address", func(ctx context.Context) error { return ServeUntil(ctx, server, l, HTTPStop) })
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

// A Note is what /readyz says besides, or "". It changes nothing of the status: were every control plane out of
// service because etcd fills, nobody could make room, and without its jobs a gateway still serves chat.
type Note func() (what string, severe bool)

// NoteOf is that etcd fills.
func NoteOf(room *etcdspace.Room) Note {
	return func() (string, bool) { return room.State().Warning() }
}

// HealthHandler answers /healthz while the process lives, /readyz while ready returns nil, and /metrics.
func HealthHandler(ready func() error, metrics prometheus.Gatherer, notes ...Note) *http.ServeMux {
	mux := ProbesHandler(ready, notes...)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// ProbesHandler is HealthHandler without /metrics.
func ProbesHandler(ready func() error, notes ...Note) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { Say(w, http.StatusOK, "ok") })
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
		Say(w, status, text)
	})
	return mux
}

// Say answers with a status and a line of text.
func Say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client may be gone.
	_, _ = io.WriteString(w, text+"\n")
}

// AllReady returns the first error of the checks.
func AllReady(checks ...func() error) func() error {
	return func() error {
		for _, check := range checks {
			if err := check(); err != nil {
				return fmt.Errorf("not ready: %w", err)
			}
		}
		return nil
	}
}
