package serve

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/modelgate/modelgate/envoy/app"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
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
	c.MaxHeap = cmp.Or(c.MaxHeap, proc.EnvoyHeap(proc.EnvoyAlone))
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
	addresses, err := bootstrap.ParseAddresses(c.Extproc)
	if err != nil {
		return err
	}
	secure, err := c.followCertificates(p, cmp.Or(c.ExtprocTLS.Name, addresses[0].Host), log)
	if err != nil {
		return err
	}
	admin, err := proc.Listen(c.Admin)
	if err != nil {
		return err
	}
	return app.Start(ctx, p, app.Options{
		Binary: binary, Config: config, AdminSocket: socket, Concurrency: c.Concurrency, Admin: admin,
		ExtProc: addresses, Secure: secure, ShutdownDelay: c.ShutdownDelay, Grace: c.Grace, Log: log,
	})
}

// followCertificates checks the files that Envoy reads, and has the log say when a certificate has expired: Envoy
// only logs the error of the peer that refuses it. It returns the credentials for the ext_proc service, whose
// certificate has a name.
func (c *envoyRunCmd) followCertificates(p *parts.Parts, name string,
	log *zap.Logger) (credentials.TransportCredentials, error) {
	xds, err := readMutualTLS(log, "--xds-", c.XDS.Cert, c.XDS.Key, c.XDS.CA)
	if err != nil {
		return nil, err
	}
	t := c.ExtprocTLS
	extProc, err := readMutualTLS(log, "--extproc-", t.Cert, t.Key, t.CA)
	if err != nil {
		return nil, err
	}
	proc.WatchCertificates(p, xds, extProc)
	if extProc == nil {
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(extProc.Client(name)), nil
}
