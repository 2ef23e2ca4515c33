package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

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

type envoyRunCmd struct {
	envoyFlags    `embed:""`
	Envoy         string        `placeholder:"PATH" help:"${binary}"`
	Dir           string        `default:"/run/modelgate" help:"Folder for the bootstrap and for the socket of Envoy's admin interface."`
	Admin         string        `default:"127.0.0.1:9004" help:"${health}"`
	ShutdownDelay time.Duration `default:"0s" help:"How long the process still accepts connections after a termination signal, so that load balancers can notice. Responses meanwhile announce that their connection closes."`
	Grace         time.Duration `default:"30s" help:"How long running requests may continue after that. Envoy exits after the last one."`
	Concurrency   int           `default:"0" help:"${workers}"`
}

// Run runs Envoy until ctx ends, and then drains and stops it. A signal that comes meanwhile stops it at once.
func (c *envoyRunCmd) Run(ctx context.Context, log *zap.Logger) error {
	binary, err := process.Find(ctx, c.Envoy)
	if err != nil {
		return err
	}
	p := parts.New(log)
	if err = c.start(ctx, p, binary, log); err == nil {
		err = p.Wait(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped while it was starting
	}
	atOnce, cancel := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	return errors.Join(err, p.Stop(atOnce))
}

func (c *envoyRunCmd) start(ctx context.Context, p *parts.Parts, binary string, log *zap.Logger) error {
	c.MaxHeap = cmp.Or(c.MaxHeap, envoyHeap(envoyAlone))
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "envoy-admin.sock")
	files, err := c.files(dir, socket, bootstrap.YAML)
	if err != nil {
		return err
	}
	config, err := files.write(dir)
	if err != nil {
		return err
	}
	extProc, err := c.watchCertificates(p, log)
	if err != nil {
		return err
	}
	watch, err := c.watchExtProc(log, extProc)
	if err != nil {
		return err
	}
	p.Add("connection to the ext_proc service", func(context.Context) error { return watch.connection.Close() })
	admin, err := proc.Listen(c.Admin)
	if err != nil {
		return err
	}
	s := supervised{admin: process.NewAdmin(socket)}
	e := &parts.Ending{}
	mux := proc.ProbesHandler(proc.AllReady(e.Ready, watch.Ready, s.ready))
	mux.HandleFunc("GET /metrics", s.metrics)
	proc.ServeHTTP(p, admin, nil, mux, log)
	log.Info("envoy is being started", zap.Stringer("admin", admin.Addr()))
	child, err := process.Start(ctx, process.Options{
		Binary: binary, Config: config, AdminSocket: socket, Concurrency: c.Concurrency, Log: log.Named("envoy"),
	})
	if err != nil {
		return err
	}
	p.Add("envoy", func(ctx context.Context) error {
		e.Begun.Store(true)
		log.Info("stopping", zap.Duration("shutdown_delay", c.ShutdownDelay), zap.Duration("grace", c.Grace))
		child.Retire(ctx)
		delay := time.NewTimer(c.ShutdownDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
		child.Stop(ctx, c.Grace)
		return nil
	})
	p.Serve("watch of the ext_proc service", func(ctx context.Context) error { return watch.run(ctx, child) })
	return nil
}

// watchCertificates checks the files that Envoy reads, and says in the log when a certificate has expired: Envoy
// only logs the error of the peer that refuses it. It returns the files of the connection to the ext_proc service, nil
// if it has no TLS.
func (c *envoyRunCmd) watchCertificates(p *parts.Parts, log *zap.Logger) (extProc *proc.MutualTLS, err error) {
	xds, err := readMutualTLS(log, "--xds-", c.XDS.Cert, c.XDS.Key, c.XDS.CA)
	if err != nil {
		return nil, err
	}
	t := c.ExtprocTLS
	if extProc, err = readMutualTLS(log, "--extproc-", t.Cert, t.Key, t.CA); err != nil {
		return nil, err
	}
	p.Serve("watch of certificates", func(ctx context.Context) error {
		ticker := time.NewTicker(time.Minute)
		defer ticker.Stop()
		for {
			for _, files := range []*proc.MutualTLS{xds, extProc} {
				if files != nil {
					files.Own()
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return extProc, nil
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
