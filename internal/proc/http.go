// Package proc has what the processes of a gateway share: listeners, the admin address, certificates that are read
// again, memory, and etcd. What a flag may say is checked before.
package proc

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/parts"
)

// ServeHTTP starts the server of an admin address, without TLS if there is no configuration of it. Bodies are
// bounded by the handlers, which know how large theirs are, and so is how long an answer may take.
func ServeHTTP(p *parts.Parts, l net.Listener, secure *tls.Config, handler http.Handler, log *zap.Logger) {
	server := newHTTPServer(secure, handler, log)
	p.Serve("admin address", func(ctx context.Context) error { return parts.ServeUntil(ctx, server, l, parts.HTTPStop) })
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
			status, text = http.StatusServiceUnavailable, adminapi.OneLine(err.Error())
		}
		for _, note := range notes {
			switch what, severe := note(); {
			case severe:
				text += "\n" + adminapi.SaysError + adminapi.OneLine(what)
			case what != "":
				text += "\n" + adminapi.SaysWarning + adminapi.OneLine(what)
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
