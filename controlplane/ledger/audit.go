package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const (
	auditColumns = "id, at, actor, role, address, action, kind, name, diff, request_id, sequence, previous, hash"
	// inChain is the condition of the index by sequence.
	inChain = "sequence > 0"
)

var (
	intoAudit = sqldb.NewInsert("audit", auditColumns, "ON CONFLICT (id) DO NOTHING")
	intoViews = sqldb.NewInsert("audit_tenants", "tenant, entry, inside, partial, own_action, own_diff",
		"ON CONFLICT (tenant, entry) DO NOTHING")
)

// An auditStore keeps the entries of the audit log.
type auditStore struct{ db *sqldb.DB }

// AppendAudit keeps entries of the audit log, each once: one whose id is known is ignored.
func (l auditStore) AppendAudit(ctx context.Context, entries []adminapi.AuditEntry) error {
	sorted := slices.SortedFunc(slices.Values(entries),
		func(a, b adminapi.AuditEntry) int { return strings.Compare(a.ID, b.ID) })
	err := l.db.Transact(ctx, func(tx *sql.Tx) error {
		var rows, views [][]any
		for _, e := range sorted {
			rows = append(rows, []any{text(e.ID), e.At.UnixMicro(), text(e.Actor), text(e.Role), text(e.Address),
				text(e.Action), text(e.Kind), text(e.Name), sqldb.Whole(e.Diff), text(e.RequestID), e.Sequence,
				text(e.Previous), text(e.Hash)})
			for _, t := range e.Tenants {
				views = append(views, []any{text(t.Tenant), text(e.ID), flag(t.Inside), flag(t.Partial), text(t.Action),
					sqldb.Whole(t.Diff)})
			}
		}
		return cmp.Or(l.db.PutRows(ctx, tx, intoAudit, rows), l.db.PutRows(ctx, tx, intoViews, views))
	})
	return doing(fmt.Sprintf("keeping %d entries of the audit log", len(entries)), err)
}

// Audit returns a part of the audit log, newest first, that is, by descending id. The filters are actor, kind, name,
// action, start and end (Unix seconds), and tenant and as: see auditOf. It returns an error of OpenAI's if the
// options are wrong.
func (l auditStore) Audit(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) {
	page := adminapi.Page[adminapi.AuditEntry]{Items: []adminapi.AuditEntry{}}
	read := l.auditOfAll
	if o.Filters["tenant"] != "" {
		read = l.auditOf
	}
	entries, err := read(ctx, o)
	if err != nil {
		return page, err
	}
	page.Items = append(page.Items, entries...)
	if limit := items(o.Limit); len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID
	}
	return page, nil
}

// auditOfAll returns a page of the entries of everybody, and one more if there is.
func (l auditStore) auditOfAll(ctx context.Context, o adminapi.ListOptions) ([]adminapi.AuditEntry, error) {
	s := l.db.Statement("SELECT ", auditColumns, " FROM audit")
	if err := filter(s, o, [][2]string{{"actor", "actor"}, {"kind", "kind"}, {"name", "name"},
		{"action", "action"}}); err != nil {
		return nil, err
	}
	if o.After != "" {
		if o.After != text(o.After) {
			return nil, errAfter()
		}
		s.And("id", "<", o.After)
	}
	s.Add(" ORDER BY id DESC LIMIT ", s.Arg(items(o.Limit)+1))
	return l.entries(ctx, s)
}

// AuditAfter returns the first entries of the audit log after an id, by ascending id.
func (l auditStore) AuditAfter(ctx context.Context, id string, limit int) ([]adminapi.AuditEntry, error) {
	s := l.db.Statement("SELECT ", auditColumns, " FROM audit")
	s.And("id", ">", id)
	s.Add(" ORDER BY id LIMIT ", s.Arg(limit))
	return l.entries(ctx, s)
}

// AuditEnds returns the entries of the chain with the lowest and the highest sequence. They are empty if there is
// none.
func (l auditStore) AuditEnds(ctx context.Context) (oldest, newest adminapi.AuditEntry, err error) {
	for order, end := range map[string]*adminapi.AuditEntry{"ASC": &oldest, "DESC": &newest} {
		s := l.db.Statement("SELECT ", auditColumns, " FROM audit WHERE ", inChain, " ORDER BY sequence ", order, " LIMIT 1")
		found, err := l.entries(ctx, s)
		if err != nil {
			return oldest, newest, err
		}
		if len(found) > 0 {
			*end = found[0]
		}
	}
	return oldest, newest, nil
}

func (l auditStore) entries(ctx context.Context, s *sqldb.Statement) ([]adminapi.AuditEntry, error) {
	found, err := sqldb.All(ctx, s, l.db.Read, intoEntry)
	return found, doing("reading the audit log", err)
}

// intoEntry returns where auditColumns go.
func intoEntry(e *adminapi.AuditEntry) []any {
	return []any{&e.ID, micros(&e.At), &e.Actor, &e.Role, &e.Address, &e.Action, &e.Kind, &e.Name, &e.Diff, &e.RequestID,
		&e.Sequence, &e.Previous, &e.Hash}
}

// pruneAudit deletes entries from before a time. Of the chain it deletes a beginning alone, whatever the clocks of
// control planes said, so that what is left is whole; and not the newest, by which the head is checked.
func (l auditStore) pruneAudit(ctx context.Context, before time.Time) (int64, error) {
	var first int64 // sequence that is kept
	keep := l.db.Statement("SELECT sequence FROM audit WHERE ", inChain, " AND at >= ")
	keep.Add(keep.Arg(before.UnixMicro()), " ORDER BY sequence LIMIT 1")
	newest := l.db.Statement("SELECT sequence FROM audit WHERE ", inChain, " ORDER BY sequence DESC LIMIT 1")
	for _, s := range []*sqldb.Statement{newest, keep} {
		if err := s.Each(ctx, l.db.Write, func(rows *sql.Rows) error { return rows.Scan(&first) }); err != nil {
			return 0, err
		}
	}
	n, err := l.db.DeleteAll(ctx, "audit", func(s *sqldb.Statement) {
		s.And("at", "<", before.UnixMicro())
		s.And("sequence", "<", max(first, 1))
	})
	if n == 0 || err != nil {
		return n, err
	}
	_, err = l.pruneViews(ctx)
	return n, err
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
