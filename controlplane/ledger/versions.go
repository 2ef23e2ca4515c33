package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const versionColumns = "id, epoch, revision, at, actor, action, kind, name, diff, document, created"

// AppendVersions keeps versions of objects, each once: one whose id is known is ignored.
func (l *Ledger) AppendVersions(ctx context.Context, versions []adminapi.Version) error {
	sorted := slices.SortedFunc(slices.Values(versions),
		func(a, b adminapi.Version) int { return strings.Compare(a.ID, b.ID) })
	err := l.transact(ctx, func(tx *sql.Tx) error {
		for chunk := range slices.Chunk(sorted, rowsAtOnce) {
			s := l.statement("INSERT INTO versions (", versionColumns, ") VALUES ")
			for i, v := range chunk {
				created := 0
				if v.Created {
					created = 1
				}
				s.row(i == 0, []any{text(v.ID), v.Epoch, v.Revision, v.At.UnixMicro(), text(v.Actor), text(v.Action),
					v.Kind, v.Name, strings.ReplaceAll(strings.ToValidUTF8(v.Diff, "\uFFFD"), "\x00", ""), string(v.Document),
					created})
			}
			s.add(" ON CONFLICT (id) DO NOTHING")
			if _, err := s.exec(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keeping %d versions of objects: %w", len(versions), err)
	}
	return nil
}

// Versions returns those of one object, newest first, at most limit, before a revision where that is not 0.
func (l *Ledger) Versions(ctx context.Context, epoch, kind, name string, before int64,
	limit int) ([]adminapi.Version, error) {
	s := l.statement("SELECT ", versionColumns, " FROM versions")
	s.and("epoch", "=", epoch)
	s.and("kind", "=", kind)
	s.and("name", "=", name)
	if before > 0 {
		s.and("revision", "<", before)
	}
	s.add(" ORDER BY revision DESC, id DESC LIMIT ", s.arg(limit))
	return l.versions(ctx, s)
}

// VersionsSince returns, of every object that was changed after a revision, its oldest version after it, and the
// newest that is not after it where that is kept. The documents are those of the latter alone.
func (l *Ledger) VersionsSince(ctx context.Context, epoch string, revision int64) (at, after []adminapi.Version,
	err error) {
	s := l.statement("SELECT id, epoch, revision, at, actor, action, kind, name, '', '', created FROM versions")
	s.and("epoch", "=", epoch)
	s.and("revision", ">", revision)
	s.add(" ORDER BY revision, id")
	all, err := l.versions(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	seen := map[[2]string]bool{}
	for _, v := range all {
		if of := [2]string{v.Kind, v.Name}; !seen[of] {
			seen[of] = true
			after = append(after, v)
		}
	}
	s = l.statement("SELECT ", versionColumns, " FROM versions v WHERE epoch = ")
	s.add(s.arg(epoch), " AND revision <= ", s.arg(revision),
		" AND EXISTS (SELECT 1 FROM versions w WHERE w.epoch = v.epoch AND w.kind = v.kind AND w.name = v.name"+
			" AND w.revision > ", s.arg(revision), ")",
		" AND NOT EXISTS (SELECT 1 FROM versions w WHERE w.epoch = v.epoch AND w.kind = v.kind AND w.name = v.name"+
			" AND (w.revision > v.revision OR w.revision = v.revision AND w.id > v.id) AND w.revision <= ", s.arg(revision), ")")
	at, err = l.versions(ctx, s)
	return at, after, err
}

func (l *Ledger) versions(ctx context.Context, s *statement) (found []adminapi.Version, err error) {
	err = s.each(ctx, l.read, func(rows *sql.Rows) error {
		var v adminapi.Version
		var at, created int64
		var document string
		err := rows.Scan(&v.ID, &v.Epoch, &v.Revision, &at, &v.Actor, &v.Action, &v.Kind, &v.Name, &v.Diff, &document,
			&created)
		v.At, v.Created, v.Deleted = time.UnixMicro(at).UTC(), created == 1, v.Action == adminapi.Deleted
		v.Document = []byte(document)
		found = append(found, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading versions of objects: %w", err)
	}
	return found, nil
}

// pruneVersions deletes versions from before a time, but for the newest of each object: it is what the object was at
// that time.
func (l *Ledger) pruneVersions(ctx context.Context, before time.Time) (int64, error) {
	return l.pruneTable(ctx, "versions", func(s *statement) {
		s.and("at", "<", before.UnixMicro())
		s.condition("EXISTS (SELECT 1 FROM versions w WHERE w.epoch = versions.epoch AND w.kind = versions.kind" +
			" AND w.name = versions.name AND w.revision > versions.revision AND w.at < " + s.arg(before.UnixMicro()) + ")")
	})
}
