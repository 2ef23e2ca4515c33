package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Bounds of the time of a request, and of one that changes many objects.
const (
	requestTimeout = 5 * time.Second
	applyTimeout   = 25 * time.Second
)

// A route is an endpoint, with the scope that it takes.
type route struct {
	pattern string
	// scope is empty where it depends on the kind of the object, and the handler checks it.
	scope   Scope
	handler httpapi.HandlerFunc
	timeout time.Duration // 0: requestTimeout
	writes  bool          // the change may be waited for, for adminapi.MaxWait longer
	tenants tenantRule    // what it does for principals who are restricted to a tenant
}

// routes is the one table of what is served and who may use it.
func (s *server) routes() []route {
	return slices.Concat(s.objectRoutes(), s.approvalRoutes(), s.ledgerRoutes(), s.stateRoutes())
}

// objectRoutes are of the configuration.
func (s *server) objectRoutes() []route {
	return []route{
		{pattern: "GET /admin/v1/{kind}", handler: s.list, tenants: checked},
		{pattern: "POST /admin/v1/{kind}", handler: s.post, writes: true, tenants: checked},
		{pattern: "GET /admin/v1/{kind}/{name...}", handler: s.get, tenants: checked},
		{pattern: "PUT /admin/v1/{kind}/{name...}", handler: s.put, writes: true, tenants: checked},
		{pattern: "DELETE /admin/v1/{kind}/{name...}", handler: s.delete, writes: true, tenants: checked},
		{pattern: "POST /admin/v1/apply", handler: s.apply, timeout: applyTimeout, writes: true},
		{pattern: "GET /admin/v1/export", scope: ConfigRead, handler: s.exportAll, timeout: exportTimeout},
		{pattern: "GET /admin/v1/history/{kind}/{name...}", scope: AuditRead, handler: s.history},
		{pattern: "POST /admin/v1/rollback/{kind}/{name...}", handler: s.rollbackOne, timeout: applyTimeout, writes: true},
		{pattern: "POST /admin/v1/rollback", scope: ConfigWrite, handler: s.rollbackAll, timeout: applyTimeout,
			writes: true},
		{pattern: "POST /admin/v1/keys", scope: KeysWrite, handler: s.createKey, writes: true, tenants: checked},
		{pattern: "POST /admin/v1/keys/{id}/rotate", scope: KeysWrite, handler: s.rotateKey, writes: true, tenants: checked},
		{pattern: "GET /admin/v1/keys/{id}/consumption", scope: KeysRead, handler: s.asked(s.keyConsumption),
			tenants: checked},
		{pattern: "POST /admin/v1/providers/{name}/test", scope: ConfigWrite, handler: s.testProvider,
			timeout: 15 * time.Second},
	}
}

// approvalRoutes are of changes that wait for a second person.
func (s *server) approvalRoutes() []route {
	return []route{
		{pattern: "GET /admin/v1/approvals", scope: KeysRead, handler: s.approvals, tenants: checked},
		{pattern: "GET /admin/v1/approvals/{id}", scope: KeysRead, handler: s.approval, tenants: checked},
		{pattern: "DELETE /admin/v1/approvals/{id}", scope: KeysWrite, handler: s.withdraw, tenants: checked},
		{pattern: "POST /admin/v1/approvals/{id}/approve", scope: AdminsWrite, handler: s.approve, writes: true,
			tenants: checked},
		{pattern: "POST /admin/v1/approvals/{id}/reject", scope: AdminsWrite, handler: s.reject, tenants: checked},
	}
}

// ledgerRoutes are of what was used, and of what went through the gateway.
func (s *server) ledgerRoutes() []route {
	return []route{
		{pattern: "POST /admin/v1/policies/test", scope: UsageRead, handler: s.asked(s.testPolicies),
			timeout: exportTimeout},
		{pattern: "GET /admin/v1/usage/{resource}", scope: UsageRead, handler: s.asked(s.usage), timeout: exportTimeout,
			tenants: checked},
		{pattern: "GET /v1/organization/usage/{resource}", scope: UsageRead, handler: s.asked(s.usage),
			timeout: exportTimeout, tenants: checked},
		{pattern: "GET /v1/organization/costs", scope: UsageRead, handler: s.asked(s.costs), timeout: exportTimeout,
			tenants: checked},
		{pattern: "GET /admin/v1/summary", scope: UsageRead, handler: s.asked(s.summary), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/series", scope: UsageRead, handler: s.asked(s.series), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/budgets", scope: UsageRead, handler: s.asked(s.budgets), tenants: checked},
		{pattern: "GET /admin/v1/attention", scope: StatusRead, handler: s.attention},
		{pattern: "GET /admin/v1/exchanges", scope: UsageRead, handler: s.asked(s.requests), timeout: streamTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/exchanges/{id}", scope: UsageRead, handler: s.asked(s.request), tenants: checked},
		{pattern: "GET /admin/v1/requests", scope: UsageRead, handler: s.asked(s.requests), timeout: streamTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/requests/{id}", scope: UsageRead, handler: s.asked(s.request), tenants: checked},
		{pattern: "GET /admin/v1/outcomes", scope: UsageRead, handler: s.asked(s.outcomes), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/findings", scope: UsageRead, handler: s.asked(s.findings), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/exchanges/{id}/bodies", scope: BodiesRead, handler: s.readBodies},
		{pattern: "DELETE /admin/v1/exchanges/{id}/bodies", scope: BodiesDelete, handler: s.deleteBodiesOf},
		{pattern: "DELETE /admin/v1/bodies", scope: BodiesDelete, handler: s.deleteBodies, timeout: applyTimeout},
		{pattern: "POST /admin/v1/erasures", scope: Everything, handler: s.asked(s.eraseUser), timeout: applyTimeout},
	}
}

// stateRoutes are of the data plane, of jobs, alerts and the audit log.
func (s *server) stateRoutes() []route {
	return []route{
		{pattern: "GET /admin/v1/health", scope: StatusRead, handler: s.asked(s.health)},
		{pattern: "GET /admin/v1/dataplane", scope: StatusRead, handler: s.dataPlane},
		{pattern: "GET /admin/v1/batches", scope: JobsRead, handler: s.batches, tenants: queried},
		{pattern: "GET /admin/v1/batches/{id}", scope: JobsRead, handler: s.batch, tenants: checked},
		{pattern: "GET /admin/v1/batches/{id}/failures", scope: JobsRead, handler: s.batchFailures},
		{pattern: "GET /admin/v1/batches/{id}/files/{which}", scope: BodiesRead, handler: s.batchFile,
			timeout: fileTimeout},
		{pattern: "POST /admin/v1/batches/{id}/cancel", scope: JobsWrite, handler: s.cancelBatch, tenants: checked},
		{pattern: "GET /admin/v1/quotas", scope: JobsRead, handler: s.quotas, tenants: queried},
		{pattern: "GET /admin/v1/fine_tuning/jobs", scope: JobsRead, handler: s.fineTuningJobs, tenants: queried},
		{pattern: "GET /admin/v1/fine_tuning/jobs/{id}", scope: JobsRead, handler: s.fineTuningJob, tenants: checked},
		{pattern: "GET /admin/v1/fine_tuning/jobs/{id}/events", scope: JobsRead, handler: s.fineTuningEvents},
		{pattern: "GET /admin/v1/alerts", scope: StatusRead, handler: s.withAlerts(s.alerts)},
		{pattern: "GET /admin/v1/alerts/history", scope: StatusRead, handler: s.withAlerts(s.alertHistory)},
		{pattern: "POST /admin/v1/alerts/{receiver}/test", scope: ConfigWrite, handler: s.withAlerts(s.testAlert),
			timeout: 20 * time.Second},
		{pattern: "GET /admin/v1/audit", scope: AuditRead, handler: s.audit, tenants: queried},
		{pattern: "GET /admin/v1/audit/verify", scope: AuditRead, handler: s.verifyAudit, timeout: verifyTimeout},
		{pattern: "POST /admin/v1/identityproviders/{provider}/test", scope: AdminsWrite, handler: s.testIdentity,
			timeout: 20 * time.Second},
		{pattern: "GET /admin/v1/audit/sinks", scope: AuditRead, handler: s.auditSinks},
		{pattern: "POST /admin/v1/admintokens", scope: AdminsWrite, handler: s.createToken},
	}
}

// guarded checks the scope of a route, bounds the time of a request, and turns the store's errors into the client's.
func (s *server) guarded(r route) httpapi.HandlerFunc {
	if r.timeout == 0 {
		r.timeout = requestTimeout
	}
	if r.writes {
		r.timeout += adminapi.MaxWait
	}
	return func(w http.ResponseWriter, req *http.Request) error {
		if r.scope != "" {
			if err := needs(req.Context(), r.scope); err != nil {
				return err
			}
		}
		p, _ := PrincipalOf(req.Context())
		req, err := r.tenants.within(req, p)
		if err != nil {
			return err
		}
		if r.writes {
			if _, _, err := waitOf(req); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(req.Context(), r.timeout)
		defer cancel()
		return clientError(r.handler(w, req.WithContext(ctx)))
	}
}

// asked has a handler that asks the ledger answer only where there is one.
func (s *server) asked(f httpapi.HandlerFunc) httpapi.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.config.Ledger == nil {
			return ledgerError(errNoLedger)
		}
		return f(w, r)
	}
}

// needs returns the error of a principal that lacks a scope.
func needs(ctx context.Context, scope Scope) error {
	if p, _ := PrincipalOf(ctx); p.May(scope) {
		return nil
	}
	return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation. Missing scopes: %s.", scope)
}

// needsKind is needs of a scope for objects of a kind.
func needsKind(ctx context.Context, kind configv1.Kind, scope Scope) error {
	if err := needs(ctx, scope); err != nil {
		return err
	}
	if p, _ := PrincipalOf(ctx); !p.Tenant.IsAll() && !tenantKind(kind, scope) {
		return notForTenant(p.Tenant)
	}
	return nil
}

// needsAny is needs of the first scope, unless the principal has one of the others.
func needsAny(ctx context.Context, scopes ...Scope) error {
	for _, s := range scopes[1:] {
		if needs(ctx, s) == nil {
			return nil
		}
	}
	return needs(ctx, scopes[0])
}

// ReadScope returns the scope that reading objects of a kind takes.
func ReadScope(kind configv1.Kind) Scope { return Scope(kind.Area() + ":read") }

// WriteScope returns the scope that writing objects of a kind takes.
func WriteScope(kind configv1.Kind) Scope {
	return Scope(cmp.Or(kind.Options.GetWriteScope(), kind.Area()+":write"))
}
