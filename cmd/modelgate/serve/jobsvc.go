package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/jobsvc/app"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/webhooks"
)

// JobsvcCmd is the command jobsvc.
type JobsvcCmd struct {
	Listen  string        `default:"unix:///run/modelgate/jobs.sock" help:"Address to listen on for Envoy: unix:///path, or host:port with mutual TLS."`
	Gateway string        `default:"unix:///run/modelgate/internal.sock" help:"Address where Envoy listens for the service, as the JobService object defines it: unix:///path, or host:port with mutual TLS."`
	Admin   string        `default:"127.0.0.1:9003" help:"${health}"`
	Node    string        `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this process in the control plane and in claims."`
	Lease   time.Duration `default:"10s" help:"How long until another replica takes over the work of a failed replica, in whole seconds."`

	Jobs jobFlags          `embed:""`
	Etcd cmdline.EtcdFlags `embed:"" prefix:"etcd-"`
	XDS  xdsFlags          `embed:"" prefix:"xds-"`
	TLS  jobsTLSFlags      `embed:"" prefix:"tls-"`

	shutdownFlags `embed:""`
}

// jobFlags are those that run has too.
type jobFlags struct {
	Blobs            string         `placeholder:"URL" env:"MODELGATE_BLOBS" help:"Storage for files: file:///folder, s3://bucket, gs://bucket or azblob://container."`
	BatchConcurrency int            `default:"64" help:"Maximum number of concurrent batch lines for one model, in this process. It sends fewer while the model is slow or refuses requests."`
	BatchTokens      int            `placeholder:"N" help:"Tokens per minute that batch lines may use for one model, in this process. Default: no limit."`
	ArchiveAfter     time.Duration  `default:"24h" help:"How long a finished batch or fine-tuning job stays in etcd before it moves to the archive in the blob store."`
	ArchiveKeep      time.Duration  `default:"2160h" help:"How long a finished batch or fine-tuning job is kept, in etcd and the archive together. After that, it is deleted."`
	JobsMemory       int64          `default:"0" placeholder:"N" help:"Maximum bytes that the job service holds in memory for requests, stored objects and answers. One organization can use half of it. Default: three eighths of the memory, at least 64 MiB and at most 1 GiB."`
	WebhookNetwork   []netip.Prefix `placeholder:"CIDR" help:"Private network where webhooks are allowed, such as 10.1.0.0/16. In this network, http:// is also allowed. May be given more than once."`
}

type jobsTLSFlags struct {
	Cert string `help:"PEM file of this process's certificate, for connections from and to Envoy."`
	Key  string `help:"${key}"`
	CA   string `help:"PEM file of the CA certificates that verify Envoy."`
	Name string `help:"DNS name in Envoy's certificate. Default: the host of the gateway."`
}

// Run serves until ctx ends.
func (c *JobsvcCmd) Run(ctx context.Context, log *zap.Logger) error {
	return c.shutdownFlags.Run(ctx, log, func(p *parts.Parts, e *parts.Ending) error { return c.start(ctx, p, e, log) })
}

func (c *JobsvcCmd) start(ctx context.Context, p *parts.Parts, e *parts.Ending, log *zap.Logger) error {
	if c.Jobs.Blobs == "" {
		return admincli.Misused("--blobs is missing: give the location of files, such as file:///var/lib/modelgate/blobs")
	}
	measured, err := proc.StartTelemetry(ctx, p, "modelgate-jobsvc", log)
	if err != nil {
		return err
	}
	toEnvoy, fromEnvoy, err := c.TLS.configs(c.Listen, c.Gateway, log)
	if err != nil {
		return err
	}
	calls := proc.NewEtcdCalls()
	measured.Registry.MustRegister(calls, proc.FileExpiry(map[string]string{
		"jobs": c.TLS.Cert, "jobs-ca": c.TLS.CA, "xds-client": c.XDS.Cert, "xds-ca": c.XDS.CA, "etcd-client": c.Etcd.Cert,
		"etcd-ca": c.Etcd.CA,
	}))
	etcd, err := c.Etcd.Client(log, calls.Option())
	if err != nil {
		return err
	}
	p.Add("connection to etcd", func(context.Context) error { return etcd.Close() })
	xds, err := c.XDS.connect(p, log)
	if err != nil {
		return err
	}
	l, err := proc.Listen(c.Listen)
	if err != nil {
		return err
	}
	if fromEnvoy != nil {
		l = tls.NewListener(l, fromEnvoy)
	}
	room, err := proc.NewRoom(etcd, measured, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	proc.FollowRoom(p, room, nil)
	memory := proc.StartMemory(p, proc.AloneShare, measured, log)
	o := c.Jobs.options()
	o.Listener, o.Gateway, o.TLS, o.Etcd, o.XDS, o.Node, o.Lease = l, c.Gateway, toEnvoy, etcd, xds, c.Node, c.Lease
	o.Memory, o.Log, o.Telemetry, o.Ending, o.Room = memory, log, measured, e, room
	server, err := app.Start(ctx, p, o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	p.Serve("job workers", server.Run)
	admin, err := proc.Listen(c.Admin)
	if err != nil {
		return err
	}
	proc.ServeHTTP(p, admin, nil, proc.HealthHandler(proc.AllReady(e.Ready, server.Ready), measured, proc.NoteOf(room),
		proc.NoteOfMemory(memory)), log)
	log.Info("job service started", zap.Stringer("listen", l.Addr()), zap.Stringer("admin", admin.Addr()))
	return nil
}

// options are what the flags say.
func (f jobFlags) options() app.Options {
	return app.Options{
		Blobs: f.Blobs, Held: f.JobsMemory,
		Batches:  batches.Limits{Lines: f.BatchConcurrency, TokensPerMinute: f.BatchTokens},
		Webhooks: webhooks.Limits{Networks: f.WebhookNetwork},
		Archive:  archive.Limits{After: f.ArchiveAfter, Keep: f.ArchiveKeep},
	}
}

// configs returns the TLS of a client of the gateway and of the server for Envoy; nil if both are Unix sockets.
func (f jobsTLSFlags) configs(listen, gateway string, log *zap.Logger) (client, server *tls.Config, err error) {
	files, err := readMutualTLS(log, "--tls-", f.Cert, f.Key, f.CA)
	if err != nil {
		return nil, nil, err
	}
	if files == nil {
		if proc.OnSocket(listen) && proc.OnSocket(gateway) {
			return nil, nil, nil
		}
		return nil, nil,
			admincli.Misused("give --tls-cert, --tls-key and --tls-ca, or Unix sockets as --listen and --gateway: otherwise others could send requests for any key")
	}
	name := f.Name
	if name == "" && !proc.OnSocket(gateway) {
		if name, _, err = net.SplitHostPort(gateway); err != nil {
			return nil, nil, err
		}
	}
	if name == "" {
		return nil, nil,
			admincli.Misused(
				"give --tls-name, the DNS name in Envoy's certificate: other certificates of the authorities must not be accepted")
	}
	if !proc.OnSocket(gateway) {
		client = files.Client(name)
	}
	if !proc.OnSocket(listen) {
		// Not every identity of the authorities is Envoy's, and whoever passes for it acts for any key.
		server = files.Server(name)
	}
	return client, server, nil
}
