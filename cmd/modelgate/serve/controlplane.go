package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gocloud.dev/blob"
	"google.golang.org/grpc/credentials"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/controlplane"
	"github.com/modelgate/modelgate/controlplane/alerts"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/audit/auditship"
	"github.com/modelgate/modelgate/controlplane/bodies"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/identity"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
)

// ControlplaneCmd is the command controlplane.
type ControlplaneCmd struct {
	Listen     string `default:"unix:///run/modelgate/xds.sock" help:"Address of the xDS server: unix:///path or host:port."`
	Admin      string `default:"127.0.0.1:8081" help:"Address of the admin API, /healthz, /readyz and /metrics."`
	SystemCA   string `default:"/etc/ssl/certs/ca-certificates.crt" help:"PEM file, on Envoy's machine, of the CA certificates that verify providers."`
	Pepper     string `required:"" placeholder:"FILE" help:"File of the root secret. It must be the same for every control plane that uses the same etcd. Created if it does not exist."`
	AdminToken string `required:"" placeholder:"FILE" help:"File of the admin API token. Created if it does not exist."`

	Ledger string `default:"sqlite:///var/lib/modelgate/ledger.db" env:"MODELGATE_LEDGER" placeholder:"URL" help:"Database for usage and cost: sqlite:///path for one control plane, or postgres://... for several."`

	Blobs string `placeholder:"URL" env:"MODELGATE_BLOBS" help:"Blob store of the job service, which contains the archive. Without it, the admin API and the dashboard list only the batches and fine-tuning jobs in etcd."`

	BodiesStore string `name:"bodies-store" placeholder:"URL" env:"MODELGATE_BODIES_STORE" help:"Blob store for requests and answers that the configuration says to keep, such as file:///var/lib/modelgate/bodies or s3://bucket?region=eu-central-1. Default: that of --blobs. Without both, none are kept."`

	Config []string `sep:"none" placeholder:"FILE" help:"YAML file of objects to apply at each start. They replace the stored objects. The process exits if an object is refused. May be given more than once."`

	AdminURL       string `name:"admin-url" placeholder:"URL" help:"URL of the dashboard for users, if it differs from the admin address."`
	GatewayURL     string `name:"gateway-url" placeholder:"URL" help:"URL of the gateway for the playground of the dashboard, without /v1. Default: the playground is off."`
	GatewayCA      string `name:"gateway-ca" placeholder:"FILE" help:"PEM file of the CA certificates that verify the gateway. Default: those of the system."`
	AdminCert      string `placeholder:"FILE" help:"PEM file of the certificate of the admin address. The process reloads it and its key after a renewal."`
	AdminKey       string `placeholder:"FILE" help:"PEM file of its private key."`
	AdminPlainHTTP bool   `name:"admin-plain-http" help:"Serve the admin address without TLS even though other machines can reach it. Use this behind a proxy that terminates TLS."`

	alertFlags         `embed:""`
	traceFlags         `embed:""`
	credentialFlags    `embed:""`
	proc.ShutdownFlags `embed:""`

	Etcd   proc.EtcdFlags `embed:"" prefix:"etcd-"`
	Upkeep upkeepFlags    `embed:"" prefix:"etcd-"`
	TLS    struct {
		Cert string `help:"PEM file of the server certificate for xDS. If it is set, clients must also present a certificate."`
		Key  string `help:"PEM file of its private key."`
		CA   string `help:"PEM file of the CA certificates that verify clients. The process reloads all three files after a renewal."`

		DataplaneName string `placeholder:"NAME" help:"DNS name that the certificates of Envoy and the ext_proc service must have, because these processes get the credentials of providers. Default: any certificate that the CA issued."`
		JobsName      string `placeholder:"NAME" help:"DNS name that the job service's certificate must have. Default: any certificate that the CA issued."`
	} `embed:"" prefix:"xds-"`
}

// Run serves until ctx ends.
func (c *ControlplaneCmd) Run(ctx context.Context, log *zap.Logger) error {
	calls := proc.NewEtcdCalls()
	etcd, err := c.Etcd.Client(log, calls.Option())
	if err != nil {
		return err
	}
	p := proc.NewParts(log)
	p.Add("connection to etcd", func(context.Context) error { return etcd.Close() })
	e := &proc.Ending{}
	if err = c.start(ctx, p, e, etcd, calls, log); err == nil {
		err = c.Wait(ctx, p, e)
	}
	return errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
}

func (c *ControlplaneCmd) start(ctx context.Context, p *proc.Parts, e *proc.Ending, etcd *clientv3.Client,
	calls proc.EtcdCalls, log *zap.Logger) error {
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
	xds, err := c.listenXDS(secure)
	if err != nil {
		return err
	}
	root, err := loadRoot(ctx, c.Pepper, etcd)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	token, err := loadAdminToken(c.AdminToken)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	playground, err := c.playground(log)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	measured, room, err := c.measure(ctx, p, etcd, calls, log)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	book, err := openNamedLedger(ctx, p, c.Ledger, log)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	plane, err := c.plane(ctx, p, controlPlaneOptions{
		etcd: etcd, xds: xds, credentials: secure, clientNames: c.clientNames(), systemCA: c.SystemCA, root: root,
		adminToken: token,
		ledger:     book, memory: startMemory(p, aloneShare, measured, log), log: log, telemetry: measured, allowed: mayName,
		room: room, alertNetworks: c.AlertNetwork, traceURL: c.TraceURL,
	})
	if err != nil {
		return err
	}
	plane.start(p)
	followRoom(p, room, c.Upkeep.keeper(room, plane.Leads, log).Step)
	base := newBaseline(objects, plane, log)
	p.Serve("configuration of --config", base.run)
	adminAt, err := c.serveAdmin(p, plane, adminTLS, playground, e, base)
	if err != nil {
		return err
	}
	log.Info("control plane started", zap.Stringer("xds", xds.Addr()), zap.Stringer("admin", adminAt))
	return nil
}

// measure starts what the process tells of itself and of etcd.
func (c *ControlplaneCmd) measure(ctx context.Context, p *proc.Parts, etcd *clientv3.Client, calls proc.EtcdCalls,
	log *zap.Logger) (*telemetry.Telemetry, *etcdspace.Room, error) {
	measured, err := proc.StartTelemetry(ctx, p, "modelgate-controlplane", log)
	if err != nil {
		return nil, nil, err
	}
	measured.Registry.MustRegister(calls, proc.FileExpiry(map[string]string{
		"xds": c.TLS.Cert, "xds-ca": c.TLS.CA, "admin": c.AdminCert, "etcd-client": c.Etcd.Cert, "etcd-ca": c.Etcd.CA,
	}))
	room, err := newRoom(etcd, measured, log)
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
func (c *ControlplaneCmd) serveAdmin(p *proc.Parts, plane *controlPlane, secure *tls.Config, playground playground,
	e *proc.Ending, base *baseline) (net.Addr, error) {
	log := plane.options.log
	l, err := proc.Listen(c.Admin)
	if err != nil {
		return nil, err
	}
	if secure == nil && !c.AdminPlainHTTP && !loopback(l.Addr()) {
		return nil, errors.Join(errAdminNeedsTLS, l.Close())
	}
	pages, _ := plane.withDashboard(cmp.Or(c.AdminURL, urlOf(l.Addr(), secure != nil)), playground)
	mux := proc.HealthHandler(proc.AllReady(e.Ready, plane.Ready, base.Ready), plane.options.telemetry,
		proc.NoteOf(plane.options.room), noteOfLedger(plane.options.ledger), noteOfMemory(plane.options.memory))
	mux.Handle("/", pages)
	proc.ServeHTTP(p, l, secure, e.Handler(mux), log)
	return l.Addr(), nil
}

// controlPlaneOptions are what a control plane needs in either form.
type controlPlaneOptions struct {
	etcd        *clientv3.Client
	xds         net.Listener
	credentials credentials.TransportCredentials // nil: none
	clientNames map[string]string                // of certificates, by role; empty: any
	systemCA    string                           // on Envoy's machine
	allowed     *allowed.List                    // what objects may name
	vault       *secretstore.Follower            // nil: there is none
	managers    *secretstore.Follower            // of secrets in secret managers; nil: there are none
	// alertNetworks are private, and receivers of alerts and of the audit log may be in them.
	alertNetworks []netip.Prefix
	root          *secret.Root
	adminToken    secret.Value
	traceURL      string // of a trace, with {trace_id} in it; empty: not known
	ledger        *ledger.Ledger
	blobs         *blob.Bucket // nil: what is archived there is not seen
	kept          *blob.Bucket // of bodies; nil: blobs
	memory        *memlimit.Watch
	log           *zap.Logger
	telemetry     *telemetry.Telemetry
	room          *etcdspace.Room
}

// A controlPlane is one and its admin API, which works before the control plane is started.
type controlPlane struct {
	*controlplane.Server
	options controlPlaneOptions
	bodies  *bodies.Store
	store   *configstore.Store
	audit   *audit.Log
	alerts  *alerts.Service
	people  *identity.Service
	sinks   *auditship.Service
	expire  func(context.Context) error // changes that wait for approval
	admin   http.Handler
}

func (c *controlPlane) start(p *proc.Parts) {
	p.Serve("control plane", c.Run)
	p.Serve("retention of the ledger", c.maintainLedger)
	p.Serve("audit log", c.audit.Run)
	p.Serve("kept bodies", c.bodies.Run)
	p.Serve("alerts", c.alerts.Run)
	p.Serve("audit sinks", c.sinks.Run)
	p.Serve("approvals", c.expire)
}

func newControlPlane(o controlPlaneOptions) (*controlPlane, error) {
	log := o.log.Named("controlplane")
	store := configstore.New(o.etcd, validStored, log)
	kept, err := bodies.New(cmp.Or(o.kept, o.blobs), o.ledger, o.root.BodySealer(), o.telemetry.Registry,
		log.Named("bodies"))
	if err != nil {
		return nil, errors.Join(err, o.xds.Close())
	}
	server, err := controlplane.New(controlplane.Config{
		Store:          store,
		Etcd:           o.etcd,
		XDS:            o.xds,
		Credentials:    o.credentials,
		ClientNames:    o.clientNames,
		Root:           o.root,
		Providers:      cmdline.Vendors(),
		Allowed:        o.allowed,
		Vault:          o.vault,
		SecretManagers: o.managers,
		SystemCA:       o.systemCA,
		Logger:         log,
		Registerer:     o.telemetry.Registry,
		Register:       serveLedger(o.ledger, kept),
	})
	if err != nil {
		return nil, errors.Join(err, o.xds.Close())
	}
	audit, sinks, err := newAuditLog(o, server, log)
	if err != nil {
		return nil, errors.Join(err, o.xds.Close())
	}
	people := identity.New(identity.Config{Providers: identity.ProvidersOf(store), Secret: server.ClientSecret})
	config := adminConfig(o, store, server, people)
	config.Audit, config.Sinks, config.Bodies = audit, sinks, kept
	watch, err := alerts.New(alerts.Options{Etcd: o.etcd, Facts: api.Facts(config), Ledger: o.ledger, Plane: server,
		Networks: o.alertNetworks, Log: log.Named("alerts")})
	if err != nil {
		return nil, errors.Join(err, o.xds.Close())
	}
	config.Alerts = watch
	return &controlPlane{Server: server, options: o, bodies: kept, store: store, audit: audit, alerts: watch,
		people: people, sinks: sinks, expire: api.Expire(config), admin: api.New(config)}, nil
}

// adminConfig returns what the admin API works with, but for what has state of its own.
func adminConfig(o controlPlaneOptions, store *configstore.Store, server *controlplane.Server,
	people *identity.Service) api.Config {
	inspector := jobsvc.NewInspector(o.etcd, o.blobs)
	return api.Config{
		Store:     store,
		Sealer:    o.root.Sealer(),
		Hasher:    auth.NewHasher(o.root.KeyPepper()),
		Token:     o.adminToken,
		Terminals: dashboard.Terminals(o.etcd, dashboard.AccountsOf(store)),
		Vendors:   cmdline.KnownVendor,
		Allowed:   o.allowed,
		Plane:     server,
		Identity:  people,
		Variable:  os.LookupEnv,
		Await:     server.Await,
		Ledger:    o.ledger,
		Jobs:      inspector,
		Batch:     inspector,
		Quotas:    inspector,
		Version:   cmdline.Version(),
		Log:       o.log.Named("admin"),
	}
}

// newAuditLog returns the audit log, and what delivers it. The metrics of the ledger are registered with theirs.
func newAuditLog(o controlPlaneOptions, server *controlplane.Server, log *zap.Logger) (*audit.Log,
	*auditship.Service, error) {
	chain := audit.New(o.etcd, o.ledger, o.ledger, log)
	sinks, err := auditship.New(auditship.Options{Etcd: o.etcd, Ledger: o.ledger, Chain: chain, Plane: server,
		Allowed: o.allowed, Networks: o.alertNetworks, Log: log.Named("auditsinks")})
	if err != nil {
		return nil, nil, err
	}
	registry := o.telemetry.Registry
	return chain, sinks, errors.Join(chain.Register(registry), o.ledger.Register(registry), sinks.Register(registry))
}

// plane returns the control plane, with the archive of jobs and Vault.
func (c *ControlplaneCmd) plane(ctx context.Context, p *proc.Parts, o controlPlaneOptions) (_ *controlPlane,
	err error) {
	o.managers = c.managers(o.log)
	if o.vault, err = c.Vault.follower(o.log); err == nil {
		o.blobs, err = openArchive(ctx, p, c.Blobs)
	}
	if err == nil {
		o.kept, err = openArchive(ctx, p, c.BodiesStore)
	}
	if err != nil {
		return nil, errors.Join(err, o.xds.Close())
	}
	return newControlPlane(o)
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

// openArchive opens a blob store, in which jobs are archived or bodies are kept, or returns nil where it is not said.
func openArchive(ctx context.Context, p *proc.Parts, address string) (*blob.Bucket, error) {
	if address == "" {
		return nil, nil
	}
	bucket, err := blobstore.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	p.Add("archive", func(context.Context) error { return bucket.Close() })
	return bucket, nil
}

// credentials returns the mutual TLS of the xDS server, or nil, with which it serves this machine alone.
func (c *ControlplaneCmd) credentials(log *zap.Logger) (credentials.TransportCredentials, error) {
	files, err := proc.ReadMutualTLS(log, "--xds-", c.TLS.Cert, c.TLS.Key, c.TLS.CA)
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
