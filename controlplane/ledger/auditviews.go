package ledger

import (
	"context"
	"maps"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// auditOf returns a part of the audit log that a tenant's people see. With the filter "as", the other filters
// apply to the form that they see.
func (l auditStore) auditOf(ctx context.Context, o adminapi.ListOptions) ([]adminapi.AuditEntry, error) {
	tenant, as := o.Filters["tenant"], o.Filters["as"]
	o.Filters = maps.Clone(o.Filters)
	delete(o.Filters, "tenant")
	delete(o.Filters, "as")
	actor, action := "actor", "action"
	if as != "" {
		actor = "(CASE WHEN inside = 1 THEN actor ELSE '" + adminapi.ActorOutside + "' END)"
		action = "(CASE WHEN own_action <> '' THEN own_action ELSE action END)"
	}
	s := l.db.Statement("SELECT ", auditColumns, ", inside, partial, own_action, own_diff",
		" FROM audit_tenants JOIN audit ON audit.id = audit_tenants.entry")
	s.And("tenant", "=", text(tenant))
	if err := filter(s, o, [][2]string{{"actor", actor}, {"kind", "kind"}, {"name", "name"},
		{"action", action}}); err != nil {
		return nil, err
	}
	if o.After != "" {
		s.And("entry", "<", text(o.After))
	}
	s.Add(" ORDER BY entry DESC LIMIT ", s.Arg(items(o.Limit)+1))
	found, err := sqldb.All(ctx, s, l.db.Read, func(e *adminapi.AuditEntry) []any {
		e.Tenants = []adminapi.AuditTenant{{Tenant: tenant}}
		v := &e.Tenants[0]
		return append(intoEntry(e), &v.Inside, &v.Partial, &v.Action, &v.Diff)
	})
	return found, doing("reading the audit log", err)
}

// pruneViews deletes the views of entries that are pruned.
func (l auditStore) pruneViews(ctx context.Context) (int64, error) {
	return l.db.DeleteAll(ctx, "audit_tenants", func(s *sqldb.Statement) {
		s.Condition("entry < (SELECT MIN(id) FROM audit)")
	})
}
