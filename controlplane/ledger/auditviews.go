package ledger

import (
	"context"
	"database/sql"
	"maps"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const viewColumns = "tenant, entry, inside, partial, own_action, own_diff"

// addViews adds how tenants see entries that are kept.
func (l auditStore) addViews(ctx context.Context, tx *sql.Tx, entries []adminapi.AuditEntry) error {
	var rows [][]any
	for _, e := range entries {
		for _, t := range e.Tenants {
			diff := strings.ReplaceAll(strings.ToValidUTF8(t.Diff, "\uFFFD"), "\x00", "")
			rows = append(rows, []any{text(t.Tenant), text(e.ID), flag(t.Inside), flag(t.Partial), text(t.Action), diff})
		}
	}
	for len(rows) > 0 {
		some := rows[:min(len(rows), rowsAtOnce)]
		rows = rows[len(some):]
		s := l.db.Statement("INSERT INTO audit_tenants (", viewColumns, ") VALUES ")
		for i, r := range some {
			s.Row(i == 0, r)
		}
		s.Add(" ON CONFLICT (tenant, entry) DO NOTHING")
		if _, err := s.Exec(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

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
	var found []adminapi.AuditEntry
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var e adminapi.AuditEntry
		v := adminapi.AuditTenant{Tenant: tenant}
		var at int64
		err := rows.Scan(&e.ID, &at, &e.Actor, &e.Role, &e.Address, &e.Action, &e.Kind, &e.Name, &e.Diff, &e.RequestID,
			&e.Sequence, &e.Previous, &e.Hash, &v.Inside, &v.Partial, &v.Action, &v.Diff)
		e.At, e.Tenants = time.UnixMicro(at).UTC(), []adminapi.AuditTenant{v}
		found = append(found, e)
		return err
	})
	return found, err
}

// pruneViews deletes the views of entries that are pruned.
func (l auditStore) pruneViews(ctx context.Context) (int64, error) {
	return l.db.DeleteAll(ctx, "audit_tenants", func(s *sqldb.Statement) {
		s.Condition("entry < (SELECT MIN(id) FROM audit)")
	})
}
