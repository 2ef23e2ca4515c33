package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/extproc"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// ExtprocCmd is the command extproc.
type ExtprocCmd struct {
	Listen string        `default:"unix:///run/modelgate/extproc.sock" help:"Address to listen on for Envoy: unix:///path or host:port. Without --tls-cert it has no TLS: use such a port only if nothing else can reach it."`
	Admin  string        `default:"127.0.0.1:9002" help:"Address of /healthz, /readyz and /metrics."`
	Node   string        `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this process in the control plane."`
	Grace  time.Duration `default:"30s" help:"How long running requests may continue during shutdown."`

	Spool      string `default:"/var/lib/modelgate/spool" placeholder:"DIR" help:"Folder for usage records until the control plane has received them. Each process needs its own folder."`
	SpoolBytes int64  `default:"1073741824" help:"Maximum size of the folder in bytes. A request needs about 350 bytes. If the folder is full, records wait in memory and may be lost."`

	proc.ShutdownFlags `embed:""`

	Transport transportFlags `embed:""`

	Bodies  bodyFlags          `embed:""`
	Limits  limitStoreFlags    `embed:""`
	Answers answerFlags        `embed:""`
	XDS     xdsFlags           `embed:"" prefix:"xds-"`
	TLS     extprocServerFlags `embed:"" prefix:"tls-"`
}

// Run serves until ctx ends.
func (c *ExtprocCmd) Run(ctx context.Context, log *zap.Logger) error {
	connection, err := c.XDS.dial(log)
	if err != nil {
		return err
	}
	p := proc.NewParts(log)
	p.Add("connection to the control plane", func(context.Context) error { return connection.Close() })
	e := &proc.Ending{}
	if err = c.start(ctx, p, e, connection, log); err == nil {
		err = c.Wait(ctx, p, e)
	}
	return errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
}

func (c *ExtprocCmd) start(ctx context.Context, p *proc.Parts, e *proc.Ending, xds grpc.ClientConnInterface,
	log *zap.Logger) error {
	measured, err := proc.StartTelemetry(ctx, p, "modelgate-extproc", log)
	if err != nil {
		return err
	}
	measured.Registry.MustRegister(proc.FileExpiry(map[string]string{
		"xds-client": c.XDS.Cert, "xds-ca": c.XDS.CA, "extproc": c.TLS.Cert, "extproc-ca": c.TLS.CA,
	}))
	secure, err := c.TLS.config(c.Listen, log)
	if err != nil {
		return err
	}
	l, err := proc.Listen(c.Listen)
	if err != nil {
		return err
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	memory := startMemory(p, aloneShare, measured, log)
	bytes := c.Bodies.bound(memory)
	server, err := startExtProc(p, extProcOptions{
		listener: l, xds: xds, node: c.Node, grace: c.Grace, limits: c.Limits, answers: c.Answers,
		spool: c.Spool, spoolBytes: c.SpoolBytes, memory: memory, bytes: bytes, log: log, telemetry: measured,
		transport: c.Transport,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	admin, err := proc.Listen(c.Admin)
	if err != nil {
		return err
	}
	proc.ServeHTTP(p, admin, nil, proc.HealthHandler(proc.AllReady(e.Ready, server.Ready), measured, noteOfMemory(memory),
		noteOfBodies(bytes)), log)
	log.Info("ext_proc service started", zap.Stringer("listen", l.Addr()), zap.Stringer("admin", admin.Addr()))
	return nil
}

// transportFlags say what serves Envoy's streams.
type transportFlags struct {
	Name string `name:"extproc-transport" default:"lean" enum:"lean,grpc" env:"MODELGATE_EXTPROC_TRANSPORT" help:"What serves Envoy's streams of ext_proc: lean, with one goroutine for each connection, or grpc, the library grpc-go, which costs several times as much CPU."`
}

type extProcOptions struct {
	transport  transportFlags
	listener   net.Listener
	xds        grpc.ClientConnInterface
	node       string
	grace      time.Duration
	limits     limitStoreFlags
	answers    answerFlags
	spool      string
	spoolBytes int64 // 0: the default
	memory     *memlimit.Watch
	bytes      *inflight.Bytes
	log        *zap.Logger
	telemetry  *telemetry.Telemetry
}

// startExtProc starts the ext_proc service as a part.
func startExtProc(p *proc.Parts, o extProcOptions) (*extproc.Server, error) {
	var t troubles
	limits, err := o.limits.open(p, &t, o.log)
	if err != nil {
		return nil, err
	}
	answers, err := o.answers.open(p, o.telemetry.Registry, &t, o.log)
	if err != nil {
		return nil, err
	}
	spool, err := openSpool(p, o.spool, o.spoolBytes, &t, o.log, o.telemetry.Registry)
	if err != nil {
		return nil, err
	}
	server := extproc.New(extproc.Options{
		XDS:        o.xds,
		NodeID:     o.node,
		Vendors:    cmdline.Vendors(),
		Logger:     o.log.Named("extproc"),
		AccessLog:  telemetry.AccessLog(o.log),
		Registerer: o.telemetry.Registry,
		Meter:      o.telemetry.Meter(),
		Tracer:     o.telemetry.Tracer(),
		Limits:     limits,
		LimitsWait: o.limits.Store != "memory",
		GRPC:       o.transport.Name == "grpc",
		Answers:    answers,
		Spool:      spool,
		Ledger:     ledgerv1.NewLedgerClient(o.xds),
		Keeper:     ledgerv1.NewBodiesClient(o.xds),
		Bytes:      o.bytes,
		Shedding:   o.memory.Shedding,
	})
	t = append(t, server.Trouble) // before it ships records
	p.Serve("ext_proc service", func(ctx context.Context) error { return server.Run(ctx, o.listener, o.grace) })
	return server, nil
}
