package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/extproc/app"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
)

// ExtprocCmd is the command extproc.
type ExtprocCmd struct {
	Listen string        `default:"unix:///run/modelgate/extproc.sock" help:"Address to listen on for Envoy: unix:///path or host:port. Without --tls-cert it has no TLS: use such a port only if nothing else can reach it."`
	Admin  string        `default:"127.0.0.1:9002" help:"${health}"`
	Node   string        `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this process in the control plane."`
	Grace  time.Duration `default:"30s" help:"${grace}"`

	Spool      string `default:"/var/lib/modelgate/spool" placeholder:"DIR" help:"Folder for usage records until the control plane has received them. Each process needs its own folder."`
	SpoolBytes int64  `default:"1073741824" help:"Maximum size of the folder in bytes. A request needs about 350 bytes. If the folder is full, records wait in memory and may be lost."`

	shutdownFlags `embed:""`

	peerFlags `embed:""`

	Held    heldFlags          `embed:""`
	Limits  limitStoreFlags    `embed:""`
	Answers answerFlags        `embed:""`
	XDS     xdsFlags           `embed:"" prefix:"xds-"`
	TLS     extprocServerFlags `embed:"" prefix:"tls-"`
}

// Run serves until ctx ends.
func (c *ExtprocCmd) Run(ctx context.Context, log *zap.Logger) error {
	return c.shutdownFlags.Run(ctx, log, func(p *parts.Parts, e *parts.Ending) error { return c.start(ctx, p, e, log) })
}

func (c *ExtprocCmd) start(ctx context.Context, p *parts.Parts, e *parts.Ending, log *zap.Logger) error {
	xds, err := c.XDS.connect(p, log)
	if err != nil {
		return err
	}
	measured, err := proc.StartTelemetry(ctx, p, "modelgate-extproc", log)
	if err != nil {
		return err
	}
	measured.Registry.MustRegister(proc.FileExpiry(map[string]string{
		"xds-client": c.XDS.Cert, "xds-ca": c.XDS.CA, "extproc": c.TLS.Cert, "extproc-ca": c.TLS.CA,
	}))
	others, err := c.peerFlags.options(c.Listen, c.TLS, log)
	if err != nil {
		return err
	}
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
	memory := proc.StartMemory(p, proc.AloneShare, measured, log)
	bytes := app.BoundBodies(c.Held.BodyBytes, memory)
	o, err := extProcOptions(c.Limits, c.Answers, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	o.Listener, o.XDS, o.Node, o.Grace, o.Spool, o.SpoolBytes = l, xds, c.Node, c.Grace, c.Spool, c.SpoolBytes
	o.Memory, o.Bytes, o.Sessions, o.Telemetry = memory, bytes, c.Held.Sessions, measured
	o.Peers, o.Ending = others, e.Ready
	server, err := app.Start(p, o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	admin, err := proc.Listen(c.Admin)
	if err != nil {
		return err
	}
	proc.ServeHTTP(p, admin, nil, proc.HealthHandler(proc.AllReady(e.Ready, server.Ready), measured,
		proc.NoteOfMemory(memory), proc.NoteOfBodies(bytes)), log)
	log.Info("ext_proc service started", zap.Stringer("listen", l.Addr()), zap.Stringer("admin", admin.Addr()))
	return nil
}

// extProcOptions are the options that commands with an ext_proc service have in common.
func extProcOptions(limits limitStoreFlags, answers answerFlags, log *zap.Logger) (o app.Options, err error) {
	o.Log = log
	if o.Limits, err = limits.store(log); err == nil {
		o.Answers, err = answers.store(log)
	}
	return o, err
}
