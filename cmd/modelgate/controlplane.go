package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	"github.com/modelgate/modelgate/controlplane"
	"github.com/modelgate/modelgate/controlplane/admin"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
)

type controlplaneCmd struct {
	Listen     string `default:"unix:///run/modelgate/xds.sock" help:"Where xDS is served: unix:///path or host:port."`
	Admin      string `default:"127.0.0.1:8081" help:"Address of the admin API, /healthz, /readyz and /metrics."`
	SystemCA   string `default:"/etc/ssl/certs/ca-certificates.crt" help:"On Envoy's machine, the PEM file of the authorities that providers are verified by."`
	Pepper     string `required:"" placeholder:"FILE" help:"File of the root secret, the same for every control plane on one etcd. Made where it is missing."`
	AdminToken string `required:"" placeholder:"FILE" help:"File of the token of the admin API. Made where it is missing."`

	Ledger string `default:"sqlite:///var/lib/modelgate/ledger.db" env:"MODELGATE_LEDGER" placeholder:"URL" help:"Where what was used and what it cost is kept: sqlite:///path of one control plane, or postgres://... of several."`

	Config []string `sep:"none" placeholder:"FILE" help:"YAML of objects that are applied at each start, in place of what is stored. One that is refused ends the process. May be given more than once."`

	AdminURL       string `name:"admin-url" placeholder:"URL" help:"Where people reach the dashboard, if not at the admin address."`
	GatewayURL     string `name:"gateway-url" placeholder:"URL" help:"Where the dashboard's playground finds the gateway, without /v1. Default: there is no playground."`
	GatewayCA      string `name:"gateway-ca" placeholder:"FILE" help:"PEM file of the authorities that the gateway's certificate is checked against. Default: the system's."`
	AdminCert      string `placeholder:"FILE" help:"PEM file of the certificate of the admin address. It and its key are read again when they are renewed."`
	AdminKey       string `placeholder:"FILE" help:"PEM file of its private key."`
	AdminPlainHTTP bool   `name:"admin-plain-http" help:"Serve the admin address without TLS though it can be reached from other machines: something before it has TLS."`

	Etcd etcdFlags `embed:"" prefix:"etcd-"`
	TLS  struct {
		Cert string `help:"PEM file of the certificate that xDS is served with. With it, clients must show one too."`
		Key  string `help:"PEM file of its private key."`
		CA   string `help:"PEM file of the authorities that clients' certificates are checked against."`
	} `embed:"" prefix:"xds-"`
}

type etcdFlags struct {
	Endpoints []string `default:"http://127.0.0.1:2379" env:"MODELGATE_ETCD" help:"URLs of etcd."`
	CA        string   `help:"PEM file of the authorities that etcd's certificate is checked against."`
	Cert      string   `help:"PEM file of this client's certificate."`
	Key       string   `help:"PEM file of this client's private key."`
}

// Run serves until ctx ends.
func (c *controlplaneCmd) Run(ctx context.Context, log *zap.Logger) error {
	etcd, err := c.Etcd.client(log)
	if err != nil {
		return err
	}
	p := newParts(log)
	p.add("connection to etcd", func(context.Context) error { return etcd.Close() })
	if err = c.start(ctx, p, etcd, log); err == nil {
		err = p.wait(ctx)
	}
	return errors.Join(err, p.stop(context.WithoutCancel(ctx)))
}

func (c *controlplaneCmd) start(ctx context.Context, p *parts, etcd *clientv3.Client, log *zap.Logger) error {
	objects, err := c.baseline()
	if err != nil {
		return err
	}
	root, err := secret.LoadRoot(c.Pepper)
	if err != nil {
		return err
	}
	token, err := secret.File(c.AdminToken, newAdminToken)
	if err != nil {
		return err
	}
	secure, err := c.credentials(log)
	if err != nil {
		return err
	}
	xds, err := listen(c.Listen)
	if err != nil {
		return err
	}
	playground, err := c.playground()
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	registry := telemetry.NewRegistry()
	book, err := openLedger(ctx, p, c.Ledger, log)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	plane, err := newControlPlane(controlPlaneOptions{
		etcd: etcd, xds: xds, credentials: secure, systemCA: c.SystemCA, root: root, adminToken: token,
		ledger: book, log: log, registry: registry,
	})
	if errors.Is(err, controlplane.ErrNeedsTLS) {
		return fmt.Errorf("%w: give --xds-cert, --xds-key and --xds-ca, or a --listen that is on this machine alone", err)
	}
	if err != nil {
		return err
	}
	plane.start(p)
	base := newBaseline(objects, plane, log)
	p.serve("configuration of --config", base.run)
	adminAt, err := c.serveAdmin(p, plane, playground, allReady(plane.Ready, base.Ready))
	if err != nil {
		return err
	}
	log.Info("control plane started", zap.Stringer("xds", xds.Addr()), zap.Stringer("admin", adminAt))
	return nil
}

// serveAdmin starts the admin address of a control plane.
func (c *controlplaneCmd) serveAdmin(p *parts, plane *controlPlane, playground playground, ready func() error) (net.Addr, error) {
	log, registry := plane.options.log, plane.options.registry
	secure, err := c.adminTLS(log)
	if err != nil {
		return nil, err
	}
	l, err := listen(c.Admin)
	if err != nil {
		return nil, err
	}
	if secure == nil && !c.AdminPlainHTTP && !loopback(l.Addr()) {
		return nil, errors.Join(errAdminNeedsTLS, l.Close())
	}
	pages, _ := plane.withDashboard(cmp.Or(c.AdminURL, urlOf(l.Addr(), secure != nil)), playground)
	mux := healthHandler(ready, registry)
	mux.Handle("/", pages)
	serveHTTP(p, l, secure, mux, log)
	return l.Addr(), nil
}

// controlPlaneOptions are what a control plane needs in either form.
type controlPlaneOptions struct {
	etcd        *clientv3.Client
	xds         net.Listener
	credentials credentials.TransportCredentials // nil: none
	systemCA    string                           // on Envoy's machine
	root        *secret.Root
	adminToken  secret.Value
	ledger      *ledger.Ledger
	log         *zap.Logger
	registry    *prometheus.Registry
}

// A controlPlane is one and its admin API, which works before the control plane is started.
type controlPlane struct {
	*controlplane.Server
	options controlPlaneOptions
	store   *configstore.Store
	audit   *admin.AuditLog
	admin   http.Handler
}

func (c *controlPlane) start(p *parts) {
	p.serve("control plane", c.Run)
	p.serve("audit log", c.audit.Run)
}

func newControlPlane(o controlPlaneOptions) (*controlPlane, error) {
	log := o.log.Named("controlplane")
	store := configstore.New(o.etcd, validStored, log)
	server, err := controlplane.New(controlplane.Config{
		Store:       store,
		XDS:         o.xds,
		Credentials: o.credentials,
		Root:        o.root,
		Providers:   vendors(),
		SystemCA:    o.systemCA,
		Logger:      log,
		Registerer:  o.registry,
		Register:    serveLedger(o.ledger),
	})
	if err != nil {
		return nil, errors.Join(err, o.xds.Close())
	}
	audit := admin.NewAuditLog(o.etcd, o.ledger, log)
	handler := admin.New(admin.Config{
		Store:   store,
		Sealer:  o.root.Sealer(),
		Hasher:  auth.NewHasher(o.root.KeyPepper()),
		Token:   o.adminToken,
		Vendors: knownVendor,
		Plane:   server,
		Audit:   audit,
		Ledger:  o.ledger,
		Jobs:    jobsvc.NewInspector(o.etcd),
		Version: version(),
		Log:     o.log.Named("admin"),
	})
	return &controlPlane{Server: server, options: o, store: store, audit: audit, admin: handler}, nil
}

// credentials returns the mutual TLS of the xDS server, or nil, with which it serves this machine alone.
func (c *controlplaneCmd) credentials(log *zap.Logger) (credentials.TransportCredentials, error) {
	files, err := readMutualTLS(log, "--xds-", c.TLS.Cert, c.TLS.Key, c.TLS.CA)
	if err != nil || files == nil {
		return nil, err
	}
	return credentials.NewTLS(files.server()), nil
}

func (f etcdFlags) client(log *zap.Logger) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:            f.Endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               log.Named("etcd"),
		Username:             os.Getenv("MODELGATE_ETCD_USERNAME"),
		Password:             os.Getenv("MODELGATE_ETCD_PASSWORD"),
	}
	if f.Cert != "" != (f.Key != "") || f.Cert != "" && f.CA == "" {
		return nil, errors.New("--etcd-cert and --etcd-key go together, and with --etcd-ca")
	}
	if f.CA != "" {
		var err error
		if config.TLS, err = f.tls(log); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}

// tls returns the configuration of connections to etcd, each of whose members may have a certificate of its own.
func (f etcdFlags) tls(log *zap.Logger) (*tls.Config, error) {
	var members []string
	for _, endpoint := range f.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Hostname() == "" {
			return nil, fmt.Errorf("--etcd-endpoints: %q is not a URL", endpoint)
		}
		members = append(members, u.Hostname())
	}
	authorities, err := followAuthorities(log, f.CA)
	if err != nil {
		return nil, err
	}
	config := trusting(authorities, members...)
	if f.Cert != "" {
		certificate, err := followCertificate(log, f.Cert, f.Key)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate.now(), nil }
	}
	return config, nil
}
