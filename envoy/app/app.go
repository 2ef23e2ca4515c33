// Package app supervises an Envoy that runs beside its ext_proc service: it starts, watches, drains and stops the
// process, and says on an address of its own how Envoy is. The command envoy run uses it.
//
// A gateway on one machine does not: its Envoy is one part among others, whose address says how all of them are.
package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
)

const (
	// askTimeout is how long Envoy may take to say how it is.
	askTimeout = time.Second
	// statsTimeout is how long Envoy may take to write its statistics, in which a large configuration shows.
	statsTimeout = 10 * time.Second
)

// Options are the settings of a supervised Envoy.
type Options struct {
	Binary      string
	Config      string // the file that Envoy is started with
	AdminSocket string // of Envoy
	Concurrency int    // worker threads; 0: one for each core

	Admin         net.Listener        // for /healthz, /readyz and /metrics
	ExtProc       bootstrap.Addresses // of the ext_proc service
	Secure        credentials.TransportCredentials
	ShutdownDelay time.Duration // during which connections are still accepted when it ends
	Grace         time.Duration // during which requests may go on after that
	Log           *zap.Logger
}

// Start starts Envoy, and what watches it, as parts of the process.
func Start(ctx context.Context, p *parts.Parts, o Options) error {
	watch, err := watchExtProc(o.ExtProc, o.Secure, o.Log)
	if err != nil {
		return err
	}
	p.Add("connection to the ext_proc service", func(context.Context) error { return watch.connection.Close() })
	s := supervised{admin: process.NewAdmin(o.AdminSocket)}
	e := &parts.Ending{}
	mux := proc.ProbesHandler(proc.AllReady(e.Ready, watch.Ready, s.ready))
	mux.HandleFunc("GET /metrics", s.metrics)
	proc.ServeHTTP(p, o.Admin, nil, mux, o.Log)
	o.Log.Info("envoy is being started", zap.Stringer("admin", o.Admin.Addr()))
	child, err := process.Start(ctx, process.Options{
		Binary: o.Binary, Config: o.Config, AdminSocket: o.AdminSocket, Concurrency: o.Concurrency,
		Log: o.Log.Named(process.Logger),
	})
	if err != nil {
		return err
	}
	p.Add("envoy", func(ctx context.Context) error {
		e.Begun.Store(true)
		o.Log.Info("stopping", zap.Duration("shutdown_delay", o.ShutdownDelay), zap.Duration("grace", o.Grace))
		child.Retire(ctx)
		delay := time.NewTimer(o.ShutdownDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
		child.Stop(ctx, o.Grace)
		return nil
	})
	p.Serve("watch of the ext_proc service", func(ctx context.Context) error { return watch.run(ctx, child) })
	return nil
}

// A supervised is what others see of an Envoy.
type supervised struct{ admin *process.Admin }

// ready reports why Envoy takes no requests of clients, or nil.
func (s supervised) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := s.admin.Ready(ctx); err != nil {
		return err
	}
	bound, err := s.admin.Listeners(ctx)
	if err != nil {
		return err
	}
	for name := range bound {
		// What is below a gateway's own name refuses plain HTTP, and serves nothing.
		if gateway, ok := strings.CutPrefix(name, envoy.GatewayListener); ok && !strings.Contains(gateway, "/") {
			return nil
		}
	}
	return errors.New("no gateway listens: the control plane has not sent one yet")
}

// metrics passes on what Envoy counts. Nothing of this process is with it: whether it was Envoy that started again
// shows in its uptime, and there is no answer if Envoy is unavailable.
func (s supervised) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statsTimeout)
	defer cancel()
	stats, err := s.admin.Prometheus(ctx, bootstrap.Statistics)
	if err != nil {
		proc.Say(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer stats.Close()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if _, err := io.Copy(w, stats); err != nil {
		panic(http.ErrAbortHandler) // half of an answer must not look like a whole one
	}
}
