// Package versions keeps the versions of configuration objects in the ledger's database.
package versions

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const versionColumns = "id, epoch, revision, at, actor, action, kind, name, diff, document, created"

var intoVersions = sqldb.NewInsert("versions", versionColumns, "ON CONFLICT (id) DO NOTHING")

// A Store keeps versions in a database that has their table.
type Store struct{ DB *sqldb.DB }

// AppendVersions keeps versions of objects, each once: one whose id is known is ignored.
func (l Store) AppendVersions(ctx context.Context, versions []adminapi.Version) error {
	sorted := slices.SortedFunc(slices.Values(versions),
		func(a, b adminapi.Version) int { return strings.Compare(a.ID, b.ID) })
	err := l.DB.Transact(ctx, func(tx *sql.Tx) error {
		var rows [][]any
		for _, v := range sorted {
			rows = append(rows, []any{sqldb.Text(v.ID), v.Epoch, v.Revision, v.At.UnixMicro(), sqldb.Text(v.Actor),
				sqldb.Text(v.Action), v.Kind, v.Name, sqldb.Whole(v.Diff), string(v.Document), sqldb.Flag(v.Created)})
		}
		return l.DB.PutRows(ctx, tx, intoVersions, rows)
	})
	if err != nil {
		return fmt.Errorf("keeping %d versions of objects: %w", len(versions), err)
	}
	return nil
}

// Versions returns those of one object, newest first, at most limit, before a revision if that is not 0.
func (l Store) Versions(ctx context.Context, epoch, kind, name string, before int64,
	limit int) ([]adminapi.Version, error) {
	s := l.DB.Statement("SELECT ", versionColumns, " FROM versions")
	s.And("epoch", "=", epoch)
	s.And("kind", "=", kind)
	s.And("name", "=", name)
	if before > 0 {
		s.And("revision", "<", before)
	}
	s.Add(" ORDER BY revision DESC, id DESC LIMIT ", s.Arg(limit))
	return l.versions(ctx, s)
}

// VersionsSince returns two versions of every object that was changed after a revision: its oldest version after
// it, and, if it is kept, the newest that is not after it. Only the latter have documents.
func (l Store) VersionsSince(ctx context.Context, epoch string, revision int64) (at, after []adminapi.Version,
	err error) {
	s := l.DB.Statement("SELECT id, epoch, revision, at, actor, action, kind, name, '', '', created FROM versions")
	s.And("epoch", "=", epoch)
	s.And("revision", ">", revision)
	s.Add(" ORDER BY revision, id")
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
	s = l.DB.Statement("SELECT ", versionColumns, " FROM versions v WHERE epoch = ")
	s.Add(s.Arg(epoch), " AND revision <= ", s.Arg(revision),
		" AND EXISTS (SELECT 1 FROM versions w WHERE w.epoch = v.epoch AND w.kind = v.kind AND w.name = v.name"+
			" AND w.revision > ", s.Arg(revision), ")",
		" AND NOT EXISTS (SELECT 1 FROM versions w WHERE w.epoch = v.epoch AND w.kind = v.kind AND w.name = v.name"+
			" AND (w.revision > v.revision OR w.revision = v.revision AND w.id > v.id) AND w.revision <= ", s.Arg(revision), ")")
	at, err = l.versions(ctx, s)
	return at, after, err
}

func (l Store) versions(ctx context.Context, s *sqldb.Statement) (found []adminapi.Version, err error) {
	found, err = sqldb.All(ctx, s, l.DB.Read, func(v *adminapi.Version) []any {
		return []any{&v.ID, &v.Epoch, &v.Revision, sqldb.Time{To: &v.At, Unit: time.Microsecond}, &v.Actor, &v.Action,
			&v.Kind, &v.Name, &v.Diff, (*[]byte)(&v.Document), &v.Created}
	})
	for i := range found {
		found[i].Deleted = found[i].Action == adminapi.Deleted
	}
	if err != nil {
		return nil, fmt.Errorf("reading versions of objects: %w", err)
	}
	return found, nil
}

// Prune deletes versions from before a time, except the newest of each object: it is the object at that time.
func Prune(ctx context.Context, db *sqldb.DB, before time.Time) (int64, error) {
	return db.DeleteAll(ctx, "versions", func(s *sqldb.Statement) {
		s.And("at", "<", before.UnixMicro())
		s.Condition("EXISTS (SELECT 1 FROM versions w WHERE w.epoch = versions.epoch AND w.kind = versions.kind" +
			" AND w.name = versions.name AND w.revision > versions.revision AND w.at < " + s.Arg(before.UnixMicro()) + ")")
	})
}
