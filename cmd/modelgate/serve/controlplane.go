package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/controlplane"
	"github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
)

// ControlplaneCmd is the command controlplane.
type ControlplaneCmd struct {
	Listen     string `default:"unix:///run/modelgate/xds.sock" help:"Address of the xDS server: unix:///path or host:port."`
	Admin      string `default:"127.0.0.1:8081" help:"${admin}"`
	SystemCA   string `default:"/etc/ssl/certs/ca-certificates.crt" help:"PEM file, on Envoy's machine, of the CA certificates that verify providers."`
	Pepper     string `required:"" placeholder:"FILE" help:"File of the root secret. It must be the same for every control plane that uses the same etcd. Created if it does not exist."`
	AdminToken string `required:"" placeholder:"FILE" help:"File of the admin API token. Created if it does not exist."`

	Ledger string `default:"sqlite:///var/lib/modelgate/ledger.db" env:"MODELGATE_LEDGER" placeholder:"URL" help:"Database for usage and cost: sqlite:///path for one control plane, or postgres://... for several."`

	Blobs string `placeholder:"URL" env:"MODELGATE_BLOBS" help:"Blob store of the job service, which contains the archive. The request log goes there, too, by day. Without it, the log stays in the ledger, and the admin API and the dashboard list only the batches and fine-tuning jobs in etcd."`

	BodiesStore string `name:"bodies-store" placeholder:"URL" env:"MODELGATE_BODIES_STORE" help:"Blob store for requests and answers that the configuration says to keep, such as file:///var/lib/modelgate/bodies or s3://bucket?region=eu-central-1. Default: that of --blobs. Without both, none are kept."`

	Config []string `sep:"none" placeholder:"FILE" help:"YAML file of objects to apply at each start. They replace the stored objects. The process exits if an object is refused. May be given more than once."`

	AdminURL       string `name:"admin-url" placeholder:"URL" help:"URL of the dashboard for users, if it differs from the admin address."`
	GatewayURL     string `name:"gateway-url" placeholder:"URL" help:"URL of the gateway for the playground of the dashboard, without /v1. Default: the playground is off."`
	GatewayCA      string `name:"gateway-ca" placeholder:"FILE" help:"PEM file of the CA certificates that verify the gateway. Default: those of the system."`
	AdminCert      string `placeholder:"FILE" help:"PEM file of the certificate of the admin address. The process reloads it and its key after a renewal."`
	AdminKey       string `placeholder:"FILE" help:"${key}"`
	AdminPlainHTTP bool   `name:"admin-plain-http" help:"Serve the admin address without TLS even though other machines can reach it. Use this behind a proxy that terminates TLS."`

	alertFlags      `embed:""`
	traceFlags      `embed:""`
	credentialFlags `embed:""`
	shutdownFlags   `embed:""`
	kubernetesFlags `embed:""`

	EnvoyGateway envoyGatewayFlags `embed:"" prefix:"envoy-gateway-"`

	Etcd   cmdline.EtcdFlags `embed:"" prefix:"etcd-"`
	Upkeep upkeepFlags       `embed:"" prefix:"etcd-"`
	TLS    struct {
		Cert string `help:"PEM file of the server certificate for xDS. If it is set, clients must also present a certificate."`
		Key  string `help:"${key}"`
		CA   string `help:"PEM file of the CA certificates that verify clients. The process reloads all three files after a renewal."`

		DataplaneName string `placeholder:"NAME" help:"DNS name that the certificates of Envoy and the ext_proc service must have, because these processes get the credentials of providers. Default: any certificate that the CA issued."`
		JobsName      string `placeholder:"NAME" help:"DNS name that the job service's certificate must have. Default: any certificate that the CA issued."`
	} `embed:"" prefix:"xds-"`
}

// Run serves until ctx ends.
func (c *ControlplaneCmd) Run(ctx context.Context, log *zap.Logger) error {
	return c.shutdownFlags.Run(ctx, log, func(p *parts.Parts, e *parts.Ending) error { return c.start(ctx, p, e, log) })
}

func (c *ControlplaneCmd) start(ctx context.Context, p *parts.Parts, e *parts.Ending, log *zap.Logger) error {
	calls := proc.NewEtcdCalls()
	etcd, err := c.Etcd.Client(log, calls.Option())
	if err != nil {
		return err
	}
	p.Add("connection to etcd", func(context.Context) error { return etcd.Close() })
	objects, mayName, err := c.objects()
	if err != nil {
		return err
	}
	secure, err := c.credentials(log)
	if err != nil {
		return err
	}
	adminTLS, err := c.adminTLS(log)
	if err != nil {
		return err
	}
	objectsOf, err := c.source()
	if err != nil {
		return err
	}
	routes, err := c.EnvoyGateway.static()
	if err != nil {
		return err
	}
	playground, err := c.playground(log)
	if err != nil {
		return err
	}
	xds, err := c.listenXDS(secure)
	if err != nil {
		return err
	}
	o := &app.Options{
		Etcd: etcd, XDS: xds, Credentials: secure, ClientNames: c.clientNames(), SystemCA: c.SystemCA, Log: log,
		Allowed: mayName, Kubernetes: objectsOf, AlertNetworks: c.AlertNetwork, TraceURL: c.TraceURL,
		Managers: c.managers(log), EnvoyGateway: routes,
	}
	plane, room, err := c.plane(ctx, p, o, calls)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	plane.Start(p)
	proc.FollowRoom(p, room, c.Upkeep.keeper(room, plane.Leads, log).Step)
	base := app.NewBaseline(objects, plane, configRefused, log)
	p.Serve("configuration of --config", base.Run)
	adminAt, err := c.serveAdmin(p, o, plane, adminTLS, playground, room, e, base)
	if err != nil {
		return err
	}
	log.Info("control plane started", zap.Stringer("xds", xds.Addr()), zap.Stringer("admin", adminAt))
	return nil
}

// measure starts what the process tells of itself and of etcd.
func (c *ControlplaneCmd) measure(ctx context.Context, p *parts.Parts, etcd *clientv3.Client, calls proc.EtcdCalls,
	log *zap.Logger) (*telemetry.Telemetry, *etcdspace.Room, error) {
	measured, err := proc.StartTelemetry(ctx, p, "modelgate-controlplane", log)
	if err != nil {
		return nil, nil, err
	}
	measured.Registry.MustRegister(calls, proc.FileExpiry(map[string]string{
		"xds": c.TLS.Cert, "xds-ca": c.TLS.CA, "admin": c.AdminCert, "etcd-client": c.Etcd.Cert, "etcd-ca": c.Etcd.CA,
	}))
	room, err := proc.NewRoom(etcd, measured, log)
	return measured, room, err
}

// objects returns what is to be applied, and what any object may name.
func (c *ControlplaneCmd) objects() ([]configv1.Object, *allowed.List, error) {
	objects, err := configObjects(c.Config)
	if err != nil {
		return nil, nil, err
	}
	if err := c.traceFlags.check(); err != nil {
		return nil, nil, err
	}
	mayName, err := c.allowed()
	return objects, mayName, err
}

// serveAdmin starts the admin address of a control plane.
func (c *ControlplaneCmd) serveAdmin(p *parts.Parts, o *app.Options, plane *app.ControlPlane, secure *tls.Config,
	playground app.Playground, room *etcdspace.Room, e *parts.Ending, base *app.Baseline) (net.Addr, error) {
	l, err := proc.Listen(c.Admin)
	if err != nil {
		return nil, err
	}
	if secure == nil && !c.AdminPlainHTTP && !loopback(l.Addr()) {
		return nil, errors.Join(errAdminNeedsTLS, l.Close())
	}
	pages, _ := plane.WithDashboard(cmp.Or(c.AdminURL, urlOf(l.Addr(), secure != nil)), playground)
	mux := proc.HealthHandler(proc.AllReady(e.Ready, plane.Ready, base.Ready), o.Telemetry, proc.NoteOf(room),
		proc.NoteUnless(adminapi.SaysNoLedger, o.Ledger.Ready), proc.NoteOfMemory(o.Memory))
	mux.Handle("/", pages)
	proc.ServeHTTP(p, l, secure, e.Handler(mux), o.Log)
	return l.Addr(), nil
}

// plane returns the control plane. It completes its options with what is read, opened and started.
func (c *ControlplaneCmd) plane(ctx context.Context, p *parts.Parts, o *app.Options,
	calls proc.EtcdCalls) (plane *app.ControlPlane, room *etcdspace.Room, err error) {
	if o.Root, err = app.LoadRoot(ctx, c.Pepper, o.Etcd); err != nil {
		return nil, nil, err
	}
	if o.AdminToken, err = app.LoadAdminToken(c.AdminToken); err != nil {
		return nil, nil, err
	}
	if o.Telemetry, room, err = c.measure(ctx, p, o.Etcd, calls, o.Log); err != nil {
		return nil, nil, err
	}
	if o.Blobs, err = app.OpenArchive(ctx, p, c.Blobs); err != nil {
		return nil, nil, err
	}
	if o.Ledger, err = openNamedLedger(ctx, p, c.Ledger, o.Blobs, o.Log); err != nil {
		return nil, nil, err
	}
	o.Memory = proc.StartMemory(p, proc.AloneShare, o.Telemetry, o.Log)
	if o.Vault, err = c.Vault.follower(o.Log); err != nil {
		return nil, nil, err
	}
	if o.Kept, err = app.OpenArchive(ctx, p, c.BodiesStore); err != nil {
		return nil, nil, err
	}
	o.Jobs = jobsvc.NewInspector(o.Etcd, o.Blobs)
	plane, err = app.New(*o)
	return plane, room, err
}

// listenXDS listens where xDS is served. Without TLS that has to be on this machine alone.
func (c *ControlplaneCmd) listenXDS(secure credentials.TransportCredentials) (net.Listener, error) {
	l, err := proc.Listen(c.Listen)
	if err != nil {
		return nil, err
	}
	if err := controlplane.CheckXDS(l.Addr(), secure); err != nil {
		return nil,
			errors.Join(
				admincli.Misused("%w: give --xds-cert, --xds-key and --xds-ca, or a --listen address that only this machine can reach", err),
				l.Close())
	}
	return l, nil
}

// credentials returns the mutual TLS of the xDS server, or nil, with which it serves this machine alone.
func (c *ControlplaneCmd) credentials(log *zap.Logger) (credentials.TransportCredentials, error) {
	files, err := readMutualTLS(log, "--xds-", c.TLS.Cert, c.TLS.Key, c.TLS.CA)
	if err != nil {
		return nil, err
	}
	if files == nil {
		if c.TLS.DataplaneName != "" || c.TLS.JobsName != "" {
			return nil,
				admincli.Misused(
					"--xds-dataplane-name and --xds-jobs-name name certificates, and need --xds-cert, --xds-key and --xds-ca")
		}
		return nil, nil
	}
	var names []string
	if c.TLS.DataplaneName != "" && c.TLS.JobsName != "" {
		names = []string{c.TLS.DataplaneName, c.TLS.JobsName} // the ledger, at the same address, asks for no role
	}
	return credentials.NewTLS(files.Server(names...)), nil
}

// clientNames are, by role, what must be in the certificates of clients of xDS.
func (c *ControlplaneCmd) clientNames() map[string]string {
	return map[string]string{
		envoy.RoleEnvoy: c.TLS.DataplaneName, envoy.RoleExtProc: c.TLS.DataplaneName, envoy.RoleJobs: c.TLS.JobsName,
	}
}
