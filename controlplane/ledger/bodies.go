package ledger

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// KeptBodies says where the bodies of an exchange are stored, and whose they are.
type KeptBodies struct {
	ID      string // of the exchange
	Blob    string
	Subject string // owner of the setting by which they are kept

	Key, Organization, Project string

	Bytes   int64
	Expires time.Time
}

// A BodiesQuery selects kept bodies: those that fulfil all that is set.
type BodiesQuery struct {
	ID, Key, Organization, Project string
	User                           string    // of the exchange, as long as the ledger has it
	Expired                        time.Time // those that expire until then
}

const bodyColumns = "id, blob, subject, key, organization, project, bytes, expires"

var intoBodies = sqldb.NewInsert("bodies", bodyColumns, "ON CONFLICT (id) DO NOTHING")

// AddBodies notes bodies, each once.
func (l requestReader) AddBodies(ctx context.Context, b KeptBodies) error {
	err := l.db.PutRows(ctx, l.db.Write, intoBodies, [][]any{{text(b.ID), b.Blob, text(b.Subject), text(b.Key),
		text(b.Organization), text(b.Project), b.Bytes, b.Expires.Unix()}})
	return doing("noting bodies", err)
}

// FindBodies returns some of the kept bodies, those that expire first.
func (l requestReader) FindBodies(ctx context.Context, q BodiesQuery, limit int) ([]KeptBodies, error) {
	if q.User == "" {
		found, err := l.findBodies(ctx, q, nil, limit)
		return found, doing("reading which bodies are kept", err)
	}
	ids, err := l.idsOfUser(ctx, q.User)
	var found []KeptBodies
	for some := range slices.Chunk(ids, sqldb.RowsAtOnce) {
		if err != nil {
			break
		}
		var more []KeptBodies
		more, err = l.findBodies(ctx, q, some, limit)
		found = append(found, more...)
	}
	slices.SortStableFunc(found, func(a, b KeptBodies) int { return a.Expires.Compare(b.Expires) })
	return found[:min(len(found), limit)], doing("reading which bodies are kept", err)
}

// findBodies returns some of the kept bodies, of some exchanges if there are ids.
func (l requestReader) findBodies(ctx context.Context, q BodiesQuery, ids []string, limit int) ([]KeptBodies, error) {
	s := l.db.Statement("SELECT ", bodyColumns, " FROM bodies")
	s.Equal("id", text(q.ID))
	s.Equal("key", text(q.Key))
	s.Equal("organization", text(q.Organization))
	s.Equal("project", text(q.Project))
	s.Among("id", ids)
	if !q.Expired.IsZero() {
		s.And("expires", "<=", q.Expired.Unix())
	}
	s.Add(" ORDER BY expires LIMIT ", s.Arg(limit))
	return sqldb.All(ctx, s, l.db.Read, func(b *KeptBodies) []any {
		return []any{&b.ID, &b.Blob, &b.Subject, &b.Key, &b.Organization, &b.Project, &b.Bytes,
			sqldb.Time{To: &b.Expires, Unit: time.Second}}
	})
}

// idsOfUser returns the ids of a user's exchanges.
func (l requestReader) idsOfUser(ctx context.Context, user string) (ids []string, err error) {
	q := segment.Query{Where: segment.Equal(segment.User, text(user)), Columns: []segment.Column{segment.ID}}
	err = l.each(ctx, q, func() { ids = nil }, func(r *segment.Row) { ids = append(ids, strings.Clone(r.ID)) })
	return ids, err
}

// ForgetBodies removes the notes of bodies, and returns how many there were.
func (l requestReader) ForgetBodies(ctx context.Context, ids ...string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	s := l.db.Statement("DELETE FROM bodies")
	s.Among("id", ids)
	n, err := s.Exec(ctx, l.db.Write)
	return n, doing("forgetting bodies", err)
}

// BodyBytes returns the size of all bodies that are kept under a subject's setting.
func (l requestReader) BodyBytes(ctx context.Context, subject string) (n int64, err error) {
	s := l.db.Statement("SELECT COALESCE(SUM(bytes), 0) FROM bodies")
	s.And("subject", "=", text(subject))
	err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&n) })
	return n, doing("adding up the bodies of "+subject, err)
}
