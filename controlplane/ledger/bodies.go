package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
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

// AddBodies notes bodies, each once.
func (l requestReader) AddBodies(ctx context.Context, b KeptBodies) error {
	s := l.db.Statement("INSERT INTO bodies (id, blob, subject, key, organization, project, bytes, expires) VALUES ")
	s.Row(true, []any{text(b.ID), b.Blob, text(b.Subject), text(b.Key), text(b.Organization), text(b.Project), b.Bytes,
		b.Expires.Unix()})
	s.Add(" ON CONFLICT (id) DO NOTHING")
	if _, err := s.Exec(ctx, l.db.Write); err != nil {
		return fmt.Errorf("noting bodies: %w", err)
	}
	return nil
}

// FindBodies returns some of the kept bodies, those that expire first.
func (l requestReader) FindBodies(ctx context.Context, q BodiesQuery, limit int) (found []KeptBodies, err error) {
	s := l.db.Statement("SELECT id, blob, subject, key, organization, project, bytes, expires FROM bodies")
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
	err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var b KeptBodies
		var expires int64
		err := rows.Scan(&b.ID, &b.Blob, &b.Subject, &b.Key, &b.Organization, &b.Project, &b.Bytes, &expires)
		b.Expires = time.Unix(expires, 0).UTC()
		found = append(found, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading which bodies are kept: %w", err)
	}
	return found, nil
}

// ForgetBodies removes the notes of bodies, and returns how many there were.
func (l requestReader) ForgetBodies(ctx context.Context, ids ...string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	s := l.db.Statement("DELETE FROM bodies")
	s.Among("id", ids)
	n, err := s.Exec(ctx, l.db.Write)
	if err != nil {
		return 0, fmt.Errorf("forgetting bodies: %w", err)
	}
	return n, nil
}

// BodyBytes returns the size of all bodies that are kept under a subject's setting.
func (l requestReader) BodyBytes(ctx context.Context, subject string) (n int64, err error) {
	s := l.db.Statement("SELECT COALESCE(SUM(bytes), 0) FROM bodies")
	s.And("subject", "=", text(subject))
	if err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&n) }); err != nil {
		return 0, fmt.Errorf("adding up the bodies of %s: %w", subject, err)
	}
	return n, nil
}
