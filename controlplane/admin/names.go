// Package admin has the names of packages api, audit and authz for the packages that do not import these yet.
package admin

import (
	"context"
	"net/http"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// Names of other packages.
type (
	// Config is [api.Config].
	Config = api.Config
	// Principal is [authz.Principal].
	Principal = authz.Principal
	// Scope is [authz.Scope].
	Scope = authz.Scope
	// Tenant is [authz.Tenant].
	Tenant = authz.Tenant
	// AuditLog is [audit.Log].
	AuditLog = audit.Log
	// AuditStore is [audit.Store].
	AuditStore = audit.Store
	// VersionStore is [audit.VersionStore].
	VersionStore = audit.VersionStore
)

// Scopes of package authz.
const (
	ConfigRead   = authz.ConfigRead
	ConfigWrite  = authz.ConfigWrite
	KeysRead     = authz.KeysRead
	KeysWrite    = authz.KeysWrite
	UsageRead    = authz.UsageRead
	JobsRead     = authz.JobsRead
	JobsWrite    = authz.JobsWrite
	AuditRead    = authz.AuditRead
	StatusRead   = authz.StatusRead
	AdminsRead   = authz.AdminsRead
	AdminsWrite  = authz.AdminsWrite
	Playground   = authz.Playground
	BodiesRead   = authz.BodiesRead
	BodiesDelete = authz.BodiesDelete
	Provision    = authz.Provision
	Everything   = authz.Everything
)

// ScopesOf is [authz.ScopesOf].
func ScopesOf(r configv1.Role) []Scope { return authz.ScopesOf(r) }

// PrincipalOfAccount is [authz.PrincipalOfAccount].
func PrincipalOfAccount(a *configv1.Account, tenant, address string) Principal {
	return authz.PrincipalOfAccount(a, tenant, address)
}

// WithPrincipal is [authz.WithPrincipal].
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return authz.WithPrincipal(ctx, p)
}

// ReadScope is [authz.ReadScope].
func ReadScope(kind configv1.Kind) Scope { return authz.ReadScope(kind) }

// WriteScope is [authz.WriteScope].
func WriteScope(kind configv1.Kind) Scope { return authz.WriteScope(kind) }

// NewAuditLog is [audit.New].
func NewAuditLog(etcd *clientv3.Client, store AuditStore, versions VersionStore, log *zap.Logger) *AuditLog {
	return audit.New(etcd, store, versions, log)
}

// AuditViews is [audit.ViewsOfPrincipal].
func AuditViews(p Principal) []adminapi.AuditTenant { return audit.ViewsOfPrincipal(p) }

// New is [api.New].
func New(c Config) http.Handler { return api.New(c) }

// Expire is [api.Expire].
func Expire(c Config) func(context.Context) error { return api.Expire(c) }

// Facts is [api.Facts].
func Facts(c Config) func(context.Context) (attention.Facts, error) { return api.Facts(c) }

// InProcess is [api.InProcess].
func InProcess(handler http.Handler, p Principal) *adminapi.Client { return api.InProcess(handler, p) }
