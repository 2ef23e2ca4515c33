package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/batches"
	jobsgateway "github.com/modelgate/modelgate/jobsvc/gateway"
	jobsmemory "github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/webhooks"
)

// uploadGrace is how long requests to the job service may go on when it ends.
const uploadGrace = 10 * time.Second

// JobsvcCmd is the command jobsvc.
type JobsvcCmd struct {
	Listen  string        `default:"unix:///run/modelgate/jobs.sock" help:"Address to listen on for Envoy: unix:///path, or host:port with mutual TLS."`
	Gateway string        `default:"unix:///run/modelgate/internal.sock" help:"Address where Envoy listens for the service, as the JobService object defines it: unix:///path, or host:port with mutual TLS."`
	Admin   string        `default:"127.0.0.1:9003" help:"Address of /healthz, /readyz and /metrics."`
	Node    string        `default:"${hostname}" env:"MODELGATE_NODE" help:"Name of this process in the control plane and in claims."`
	Lease   time.Duration `default:"10s" help:"How long until another replica takes over the work of a failed replica, in whole seconds."`

	Jobs jobFlags       `embed:""`
	Etcd proc.EtcdFlags `embed:"" prefix:"etcd-"`
	XDS  xdsFlags       `embed:"" prefix:"xds-"`
	TLS  jobsTLSFlags   `embed:"" prefix:"tls-"`

	proc.ShutdownFlags `embed:""`
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
	Key  string `help:"PEM file of its private key."`
	CA   string `help:"PEM file of the CA certificates that verify Envoy."`
	Name string `help:"DNS name in Envoy's certificate. Default: the host of the gateway."`
}

// Run serves until ctx ends.
func (c *JobsvcCmd) Run(ctx context.Context, log *zap.Logger) error {
	p := proc.NewParts(log)
	e := &proc.Ending{}
	err := c.start(ctx, p, e, log)
	if err == nil {
		err = c.Wait(ctx, p, e)
	}
	return errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
}

func (c *JobsvcCmd) start(ctx context.Context, p *proc.Parts, e *proc.Ending, log *zap.Logger) error {
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
	xds, err := c.XDS.dial(log)
	if err != nil {
		return err
	}
	p.Add("connection to the control plane", func(context.Context) error { return xds.Close() })
	l, err := proc.Listen(c.Listen)
	if err != nil {
		return err
	}
	if fromEnvoy != nil {
		l = tls.NewListener(l, fromEnvoy)
	}
	room, err := newRoom(etcd, measured, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	followRoom(p, room, nil)
	memory := startMemory(p, aloneShare, measured, log)
	server, err := startJobs(ctx, p, jobsOptions{
		jobFlags: c.Jobs, listener: l, gateway: c.Gateway, tls: toEnvoy, etcd: etcd, xds: xds, node: c.Node, lease: c.Lease,
		memory: memory, log: log, telemetry: measured, ending: e, room: room,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	p.Serve("job workers", server.Run)
	admin, err := proc.Listen(c.Admin)
	if err != nil {
		return err
	}
	proc.ServeHTTP(p, admin, nil, proc.HealthHandler(proc.AllReady(e.Ready, server.Ready), measured, proc.NoteOf(room),
		noteOfMemory(memory)), log)
	log.Info("job service started", zap.Stringer("listen", l.Addr()), zap.Stringer("admin", admin.Addr()))
	return nil
}

type jobsOptions struct {
	jobFlags
	listener  net.Listener
	gateway   string
	tls       *tls.Config // towards the gateway
	etcd      *clientv3.Client
	xds       grpc.ClientConnInterface
	node      string
	lease     time.Duration
	memory    *memlimit.Watch
	log       *zap.Logger
	telemetry *telemetry.Telemetry
	ending    *proc.Ending
	gate      func(http.Handler) http.Handler // nil: none
	room      *etcdspace.Room
}

// startJobs starts the API of the job service. Its workers are a part of their own, which needs Envoy.
func startJobs(ctx context.Context, p *proc.Parts, o jobsOptions) (*jobsvc.Server, error) {
	log := o.log.Named("jobs")
	bucket, err := blobstore.Open(ctx, o.Blobs)
	if err != nil {
		return nil, err
	}
	p.Add("blob store", func(context.Context) error { return bucket.Close() })
	out, err := jobsgateway.New(o.gateway, o.tls, 2*o.BatchConcurrency)
	if err != nil {
		return nil, err
	}
	p.Add("connections to the gateway", func(context.Context) error { out.Close(); return nil })
	held, err := jobsmemory.New(o.heldBytes(o.memory), o.telemetry.Registry)
	if err != nil {
		return nil, err
	}
	server, err := jobsvc.New(jobsvc.Options{
		Etcd: o.etcd, Room: o.room, Bucket: bucket, Gateway: out, XDS: o.xds, Vendors: cmdline.Vendors(),
		Validate: validStored, Node: o.node, Lease: o.lease, Shedding: o.memory.Shedding, Memory: held,
		Batches:  batches.Limits{Lines: o.BatchConcurrency, TokensPerMinute: o.BatchTokens},
		Webhooks: webhooks.Limits{Networks: o.WebhookNetwork},
		Archive:  archive.Limits{After: o.ArchiveAfter, Keep: o.ArchiveKeep},
		Log:      log, Registerer: o.telemetry.Registry, Tracer: o.telemetry.Tracer(),
	})
	if err != nil {
		return nil, err
	}
	// No limit on how long a body takes: Envoy ends a connection that is silent. Idle connections are Envoy's to close.
	handler := httpapi.Spare(o.memory.Shedding, isNewWork, server.Handler())
	if o.gate != nil {
		handler = o.gate(handler)
	}
	api := &http.Server{Handler: o.ending.Handler(handler), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: zap.NewStdLog(log)}
	p.Serve("job service", func(ctx context.Context) error { return proc.ServeUntil(ctx, api, o.listener, uploadGrace) })
	return server, nil
}

// validStored reports what is wrong with an object of the configuration.
func validStored(object configv1.Object) error {
	return configv1.ValidateStored(object, cmdline.KnownVendor).Err()
}

// configs returns the TLS of a client of the gateway and of the server for Envoy; nil where both are Unix sockets.
func (f jobsTLSFlags) configs(listen, gateway string, log *zap.Logger) (client, server *tls.Config, err error) {
	files, err := proc.ReadMutualTLS(log, "--tls-", f.Cert, f.Key, f.CA)
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
