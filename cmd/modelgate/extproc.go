package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/telemetry"
)

type extprocCmd struct {
	Listen string        `default:"unix:///run/modelgate/extproc.sock" help:"Where Envoy finds the service: unix:///path or host:port. It has no TLS: use a port only where no one else can reach it."`
	Admin  string        `default:"127.0.0.1:9002" help:"Address of /healthz, /readyz and /metrics."`
	Node   string        `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this process in the control plane."`
	Grace  time.Duration `default:"30s" help:"How long requests that are being served may go on when the process ends."`

	Spool string `default:"/var/lib/modelgate/spool" placeholder:"DIR" help:"Folder of this process alone, in which the records of what was used wait until the control plane has them."`

	Limits limitStoreFlags `embed:""`
	XDS    xdsFlags        `embed:"" prefix:"xds-"`
}

// Run serves until ctx ends.
func (c *extprocCmd) Run(ctx context.Context, log *zap.Logger) error {
	connection, err := c.XDS.dial()
	if err != nil {
		return err
	}
	p := newParts(log)
	p.add("connection to the control plane", func(context.Context) error { return connection.Close() })
	if err = c.start(p, connection, log); err == nil {
		err = p.wait(ctx)
	}
	return errors.Join(err, p.stop(context.WithoutCancel(ctx)))
}

func (c *extprocCmd) start(p *parts, xds grpc.ClientConnInterface, log *zap.Logger) error {
	registry := telemetry.NewRegistry()
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	server, err := startExtProc(p, extProcOptions{
		listener: l, xds: xds, node: c.Node, grace: c.Grace, limits: c.Limits, spool: c.Spool, log: log, registry: registry,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	admin, err := listen(c.Admin)
	if err != nil {
		return err
	}
	serveHTTP(p, admin, nil, healthHandler(allReady(server.Ready), registry), log)
	log.Info("ext_proc service started", zap.Stringer("listen", l.Addr()), zap.Stringer("admin", admin.Addr()))
	return nil
}

type extProcOptions struct {
	listener net.Listener
	xds      grpc.ClientConnInterface
	node     string
	grace    time.Duration
	limits   limitStoreFlags
	spool    string
	log      *zap.Logger
	registry prometheus.Registerer
}

// startExtProc starts the ext_proc service as a part.
func startExtProc(p *parts, o extProcOptions) (*extproc.Server, error) {
	limits, err := o.limits.open(p, o.log)
	if err != nil {
		return nil, err
	}
	spool, err := openSpool(p, o.spool, o.log, o.registry)
	if err != nil {
		return nil, err
	}
	server := extproc.New(extproc.Options{
		XDS:        o.xds,
		NodeID:     o.node,
		Vendors:    vendors(),
		Logger:     o.log.Named("extproc"),
		AccessLog:  o.log.Named("access"),
		Registerer: o.registry,
		Limits:     limits,
		Spool:      spool,
		Ledger:     ledgerv1.NewLedgerClient(o.xds),
	})
	p.serve("ext_proc service", func(ctx context.Context) error { return server.Run(ctx, o.listener, o.grace) })
	return server, nil
}

// vendors are the providers that are built in, by name.
func vendors() map[string]provider.Provider { return all.Providers() }
