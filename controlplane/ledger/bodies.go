package ledger

import (
	"context"
	"database/sql"
	"time"

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
	s := l.db.Statement("SELECT ", bodyColumns, " FROM bodies")
	s.Equal("id", text(q.ID))
	s.Equal("key", text(q.Key))
	s.Equal("organization", text(q.Organization))
	s.Equal("project", text(q.Project))
	if q.User != "" {
		bodiesOfUser(s, q.User)
	}
	if !q.Expired.IsZero() {
		s.And("expires", "<=", q.Expired.Unix())
	}
	s.Add(" ORDER BY expires LIMIT ", s.Arg(limit))
	found, err := sqldb.All(ctx, s, l.db.Read, func(b *KeptBodies) []any {
		return []any{&b.ID, &b.Blob, &b.Subject, &b.Key, &b.Organization, &b.Project, &b.Bytes,
			sqldb.Time{To: &b.Expires, Unit: time.Second}}
	})
	return found, doing("reading which bodies are kept", err)
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
