package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
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
	scope   authz.Scope
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
		{pattern: "GET /admin/v1/export", scope: authz.ConfigRead, handler: s.exportAll, timeout: exportTimeout},
		{pattern: "GET /admin/v1/history/{kind}/{name...}", scope: authz.AuditRead, handler: s.history},
		{pattern: "POST /admin/v1/rollback/{kind}/{name...}", handler: s.rollbackOne, timeout: applyTimeout, writes: true},
		{pattern: "POST /admin/v1/rollback", scope: authz.ConfigWrite, handler: s.rollbackAll, timeout: applyTimeout,
			writes: true},
		{pattern: "POST /admin/v1/keys", scope: authz.KeysWrite, handler: s.createKey, writes: true, tenants: checked},
		{pattern: "POST /admin/v1/keys/{id}/rotate", scope: authz.KeysWrite, handler: s.rotateKey, writes: true,
			tenants: checked},
		{pattern: "GET /admin/v1/keys/{id}/consumption", scope: authz.KeysRead, handler: s.asked(s.keyConsumption),
			tenants: checked},
		{pattern: "POST /admin/v1/providers/{name}/test", scope: authz.ConfigWrite, handler: s.testProvider,
			timeout: 15 * time.Second},
	}
}

// approvalRoutes are of changes that wait for a second person.
func (s *server) approvalRoutes() []route {
	return []route{
		{pattern: "GET /admin/v1/approvals", scope: authz.KeysRead, handler: s.approvals, tenants: checked},
		{pattern: "GET /admin/v1/approvals/{id}", scope: authz.KeysRead, handler: s.approval, tenants: checked},
		{pattern: "DELETE /admin/v1/approvals/{id}", scope: authz.KeysWrite, handler: s.withdraw, tenants: checked},
		{pattern: "POST /admin/v1/approvals/{id}/approve", scope: authz.AdminsWrite, handler: s.approve, writes: true,
			tenants: checked},
		{pattern: "POST /admin/v1/approvals/{id}/reject", scope: authz.AdminsWrite, handler: s.reject, tenants: checked},
	}
}

// ledgerRoutes are of what was used, and of what went through the gateway.
func (s *server) ledgerRoutes() []route {
	return []route{
		{pattern: "POST /admin/v1/policies/test", scope: authz.UsageRead, handler: s.asked(s.testPolicies),
			timeout: exportTimeout},
		{pattern: "GET /admin/v1/usage/{resource}", scope: authz.UsageRead, handler: s.asked(s.usage),
			timeout: exportTimeout, tenants: checked},
		{pattern: "GET /v1/organization/usage/{resource}", scope: authz.UsageRead, handler: s.asked(s.usage),
			timeout: exportTimeout, tenants: checked},
		{pattern: "GET /v1/organization/costs", scope: authz.UsageRead, handler: s.asked(s.costs), timeout: exportTimeout,
			tenants: checked},
		{pattern: "GET /admin/v1/summary", scope: authz.UsageRead, handler: s.asked(s.summary), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/series", scope: authz.UsageRead, handler: s.asked(s.series), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/budgets", scope: authz.UsageRead, handler: s.asked(s.budgets), tenants: checked},
		{pattern: "GET /admin/v1/attention", scope: authz.StatusRead, handler: s.attention},
		{pattern: "GET /admin/v1/exchanges", scope: authz.UsageRead, handler: s.asked(s.requests), timeout: streamTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/exchanges/{id}", scope: authz.UsageRead, handler: s.asked(s.request), tenants: checked},
		{pattern: "GET /admin/v1/requests", scope: authz.UsageRead, handler: s.asked(s.requests), timeout: streamTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/requests/{id}", scope: authz.UsageRead, handler: s.asked(s.request), tenants: checked},
		{pattern: "GET /admin/v1/outcomes", scope: authz.UsageRead, handler: s.asked(s.outcomes), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/findings", scope: authz.UsageRead, handler: s.asked(s.findings), timeout: exportTimeout,
			tenants: queried},
		{pattern: "GET /admin/v1/exchanges/{id}/bodies", scope: authz.BodiesRead, handler: s.readBodies},
		{pattern: "DELETE /admin/v1/exchanges/{id}/bodies", scope: authz.BodiesDelete, handler: s.deleteBodiesOf},
		{pattern: "DELETE /admin/v1/bodies", scope: authz.BodiesDelete, handler: s.deleteBodies, timeout: applyTimeout},
		{pattern: "POST /admin/v1/erasures", scope: authz.Everything, handler: s.asked(s.eraseUser), timeout: applyTimeout},
	}
}

// stateRoutes are of the data plane, of jobs, alerts and the audit log.
func (s *server) stateRoutes() []route {
	return []route{
		{pattern: "GET /admin/v1/health", scope: authz.StatusRead, handler: s.asked(s.health)},
		{pattern: "GET /admin/v1/dataplane", scope: authz.StatusRead, handler: s.dataPlane},
		{pattern: "GET /admin/v1/batches", scope: authz.JobsRead, handler: s.batches, tenants: queried},
		{pattern: "GET /admin/v1/batches/{id}", scope: authz.JobsRead, handler: s.batch, tenants: checked},
		{pattern: "GET /admin/v1/batches/{id}/failures", scope: authz.JobsRead, handler: s.batchFailures},
		{pattern: "GET /admin/v1/batches/{id}/files/{which}", scope: authz.BodiesRead, handler: s.batchFile,
			timeout: fileTimeout},
		{pattern: "POST /admin/v1/batches/{id}/cancel", scope: authz.JobsWrite, handler: s.cancelBatch, tenants: checked},
		{pattern: "GET /admin/v1/quotas", scope: authz.JobsRead, handler: s.quotas, tenants: queried},
		{pattern: "GET /admin/v1/fine_tuning/jobs", scope: authz.JobsRead, handler: s.fineTuningJobs, tenants: queried},
		{pattern: "GET /admin/v1/fine_tuning/jobs/{id}", scope: authz.JobsRead, handler: s.fineTuningJob, tenants: checked},
		{pattern: "GET /admin/v1/fine_tuning/jobs/{id}/events", scope: authz.JobsRead, handler: s.fineTuningEvents},
		{pattern: "GET /admin/v1/alerts", scope: authz.StatusRead, handler: s.withAlerts(s.alerts)},
		{pattern: "GET /admin/v1/alerts/history", scope: authz.StatusRead, handler: s.withAlerts(s.alertHistory)},
		{pattern: "POST /admin/v1/alerts/{receiver}/test", scope: authz.ConfigWrite, handler: s.withAlerts(s.testAlert),
			timeout: 20 * time.Second},
		{pattern: "GET /admin/v1/audit", scope: authz.AuditRead, handler: s.audit, tenants: queried},
		{pattern: "GET /admin/v1/audit/verify", scope: authz.AuditRead, handler: s.verifyAudit,
			timeout: audit.VerifyTimeout},
		{pattern: "POST /admin/v1/identityproviders/{provider}/test", scope: authz.AdminsWrite, handler: s.testIdentity,
			timeout: 20 * time.Second},
		{pattern: "GET /admin/v1/audit/sinks", scope: authz.AuditRead, handler: s.auditSinks},
		{pattern: "POST /admin/v1/admintokens", scope: authz.AdminsWrite, handler: s.createToken},
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
			if err := authz.Needs(req.Context(), r.scope); err != nil {
				return err
			}
		}
		p, _ := authz.PrincipalOf(req.Context())
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
			return ledger.Unavailable(ledger.ErrNone)
		}
		return f(w, r)
	}
}
