// Package app assembles a control plane: the configuration, the ledger, the audit log with its sinks, alerts, people,
// the admin API and the dashboard. The process controlplane and a gateway on one machine use it.
//
// A control plane answers its admin API before Start: a gateway on one machine stores its configuration first.
package app

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gocloud.dev/blob"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane"
	"github.com/modelgate/modelgate/controlplane/alerts"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/audit/auditship"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/bodies"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/envoygateway"
	"github.com/modelgate/modelgate/controlplane/identity"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/controlplane/kubernetes"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/queries"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Options are the settings of a control plane.
type Options struct {
	Etcd        *clientv3.Client
	XDS         net.Listener
	Credentials credentials.TransportCredentials // of xDS; nil: none
	ClientNames map[string]string                // of certificates, by role; empty: any
	SystemCA    string                           // on Envoy's machine
	Allowed     *allowed.List                    // what objects may name
	Vault       *secretstore.Follower            // nil: there is none
	Managers    *secretstore.Follower            // of secrets in secret managers; nil: there are none
	// AlertNetworks are private, and receivers of alerts and of the audit log may be in them.
	AlertNetworks []netip.Prefix
	Root          *secret.Root
	AdminToken    secret.Value
	Kubernetes    *kubernetes.Source // whose objects declare configuration; nil: none
	// EnvoyGateway is for the Envoys of Envoy Gateway, whose extension server this is. Nil: it is none.
	EnvoyGateway *envoygateway.Static
	TraceURL     string // of a trace, with {trace_id} in it; empty: not known
	Ledger       *ledger.Ledger
	Blobs        *blob.Bucket // of the job service; nil: what is archived there is not seen
	Kept         *blob.Bucket // of bodies; nil: Blobs
	Jobs         Jobs
	Memory       *memlimit.Watch
	Telemetry    *telemetry.Telemetry
	Log          *zap.Logger
}

// Jobs knows what the job service stores.
type Jobs interface {
	api.Jobs
	api.OneBatch
	api.Quotas
	queries.Running
}

// A ControlPlane is one with its admin API.
type ControlPlane struct {
	*controlplane.Server
	options Options
	bodies  *bodies.Store
	store   *configstore.Store
	audit   *audit.Log
	alerts  *alerts.Service
	keeper  *incidents.Keeper
	people  *identity.Service
	sinks   *auditship.Service
	expire  func(context.Context) error // changes that wait for approval
	owners  *configstore.OwnerIndex
	changes *config.Service
	admin   http.Handler
	routes  *envoygateway.Server // nil: it is no extension server
}

// Start starts the control plane as parts of the process.
func (c *ControlPlane) Start(p *parts.Parts) {
	p.Serve("control plane", c.Run)
	p.Serve("retention of the ledger", c.maintainLedger)
	p.Serve("audit log", c.audit.Run)
	p.Serve("kept bodies", c.bodies.Run)
	p.Serve("incidents", c.keeper.Run)
	p.Serve("alerts", c.alerts.Run)
	p.Serve("audit sinks", c.sinks.Run)
	p.Serve("approvals", c.expire)
	p.Serve("owners of objects", c.owners.Run)
	if c.options.Kubernetes != nil {
		p.Serve("objects of Kubernetes", c.kubernetes().Run)
	}
	if c.options.Kubernetes != nil && c.routes != nil {
		p.Serve("HTTPRoutes of Envoy Gateway", c.announce)
	}
}

// As returns a client of the admin API that acts as someone, in this process.
func (c *ControlPlane) As(who authz.Principal) *adminapi.Client { return api.InProcess(c.admin, who) }

// kubernetes returns what makes configuration of objects of Kubernetes.
func (c *ControlPlane) kubernetes() *kubernetes.Controller {
	return kubernetes.New(kubernetes.Options{Source: *c.options.Kubernetes, Etcd: c.options.Etcd, Store: c.store,
		Changes: c.changes, Owners: c.owners, Await: c.Await, ObjectError: c.ObjectError, Ready: c.Ready,
		Log: c.options.Log.Named("kubernetes")})
}

// New returns a control plane that is not started.
func New(o Options) (*ControlPlane, error) {
	log := o.Log.Named("controlplane")
	store := configstore.New(o.Etcd, validStored, log)
	kept, err := bodies.New(cmp.Or(o.Kept, o.Blobs), o.Ledger, o.Root.BodySealer(), o.Telemetry.Registry,
		log.Named("bodies"))
	if err != nil {
		return nil, err
	}
	var routes *envoygateway.Server // set before the server of xDS starts
	server, err := controlplane.New(controlplane.Config{
		Store:          store,
		Etcd:           o.Etcd,
		XDS:            o.XDS,
		Credentials:    o.Credentials,
		ClientNames:    o.ClientNames,
		Root:           o.Root,
		Providers:      all.Providers(),
		Allowed:        o.Allowed,
		Vault:          o.Vault,
		SecretManagers: o.Managers,
		SystemCA:       o.SystemCA,
		Logger:         log,
		Registerer:     o.Telemetry.Registry,
		Register: func(to *grpc.Server) {
			serveLedger(o.Ledger, kept)(to)
			if routes != nil {
				routes.Register(to)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if o.EnvoyGateway != nil {
		routes = envoygateway.New(envoygateway.Options{Static: *o.EnvoyGateway, Plane: server,
			Log: log.Named("envoygateway")})
	}
	audit, sinks, err := newAuditLog(o, server, log)
	if err != nil {
		return nil, err
	}
	people := identity.New(identity.Config{Providers: identity.ProvidersOf(store), Secret: server.ClientSecret})
	settings := adminConfig(o, store, server, people)
	settings.Audit, settings.Sinks, settings.Bodies = audit, sinks, kept
	settings.Owners = configstore.NewOwnerIndex(store)
	facts := api.Queries(settings)
	watch, err := alerts.New(alerts.Options{Etcd: o.Etcd, Facts: facts.Facts, Ledger: o.Ledger,
		Incidents: incidents.NewStore(o.Ledger.Database()).List, Plane: server,
		KeyName: facts.KeyName, Networks: o.AlertNetworks, Log: log.Named("alerts")})
	if err != nil {
		return nil, err
	}
	settings.Alerts = watch
	return &ControlPlane{Server: server, options: o, bodies: kept, store: store, audit: audit, alerts: watch,
		keeper: newKeeper(o, facts, server, log), people: people, sinks: sinks,
		expire: api.Expire(settings), admin: api.New(settings), owners: settings.Owners,
		changes: api.Changes(settings), routes: routes}, nil
}

// newKeeper returns what keeps incidents.
func newKeeper(o Options, q *queries.Service, server *controlplane.Server, log *zap.Logger) *incidents.Keeper {
	return incidents.New(incidents.Options{Etcd: o.Etcd, Facts: q.Facts, Versions: q.History.Versions,
		Undoes: q.History.Undoes, KeyName: q.KeyName, State: server.State, Log: o.Ledger,
		Store: incidents.NewStore(o.Ledger.Database()), Logger: log.Named("incidents")})
}

// validStored reports the errors of a stored object.
func validStored(object configv1.Object) error {
	return configv1.ValidateStored(object, all.Known).Err()
}

// adminConfig returns what the admin API works with, but for what has state of its own.
func adminConfig(o Options, store *configstore.Store, server *controlplane.Server,
	people *identity.Service) api.Config {
	return api.Config{
		Store:     store,
		Sealer:    o.Root.Sealer(),
		Hasher:    auth.NewHasher(o.Root.KeyPepper()),
		Token:     o.AdminToken,
		Terminals: dashboard.Terminals(o.Etcd, dashboard.AccountsOf(store)),
		Vendors:   all.Known,
		Allowed:   o.Allowed,
		Plane:     server,
		Identity:  people,
		Variable:  os.LookupEnv,
		Await:     server.Await,
		Ledger:    o.Ledger,
		Jobs:      o.Jobs,
		Batch:     o.Jobs,
		Quotas:    o.Jobs,
		Running:   o.Jobs,
		Version:   proc.Version(),
		Log:       o.Log.Named("admin"),
	}
}

// newAuditLog returns the audit log, and what delivers it. The metrics of the ledger are registered with theirs.
func newAuditLog(o Options, server *controlplane.Server, log *zap.Logger) (*audit.Log, *auditship.Service, error) {
	chain := audit.New(o.Etcd, o.Ledger, o.Ledger, log)
	sinks, err := auditship.New(auditship.Options{Etcd: o.Etcd, Ledger: o.Ledger, Chain: chain, Plane: server,
		Allowed: o.Allowed, Networks: o.AlertNetworks, Log: log.Named("auditsinks")})
	if err != nil {
		return nil, nil, err
	}
	registry := o.Telemetry.Registry
	return chain, sinks, errors.Join(chain.Register(registry), o.Ledger.Register(registry), sinks.Register(registry))
}
