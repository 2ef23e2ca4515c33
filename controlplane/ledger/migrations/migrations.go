// Package migrations brings the tables of the ledger up to date.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
)

//go:embed *.sql
var files embed.FS

// Up brings the tables up to date. The measures are columns of the sums by minute, and those in named of the sums of
// keys and users.
func Up(ctx context.Context, db *sqldb.DB, measures, named []string) error {
	if !db.Postgres {
		if err := db.MakeFile(); err != nil {
			return err
		}
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{goose.WithTableName("ledger_migrations"),
		goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(sumTables(db, measures, named), segmentTables(db),
			dailySums(measures), talliesTable(db))}
	if db.Postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // other control planes start, too
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, db.Write, files, options...)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// sumTables is the fourth migration. It is no file, because SQLite is to keep the rows in their keys: to add to a row
// takes half as many pages then, and PostgreSQL has no such tables.
func sumTables(db *sqldb.DB, measures, named []string) *goose.Migration {
	within := ""
	if !db.Postgres {
		within = " WITHOUT ROWID"
	}
	up := []string{
		// By minute, of all tenants together.
		"CREATE TABLE minutes (start BIGINT NOT NULL, model TEXT NOT NULL, provider TEXT NOT NULL, " +
			strings.Join(measures, " BIGINT NOT NULL, ") + " BIGINT NOT NULL, PRIMARY KEY (start, model, provider))" + within,
		// Of keys (field 1) and of users (field 2), whatever else they are of: of an hour (width 3600) and of a day (width
		// 86400), in seconds.
		"CREATE TABLE sums (field SMALLINT NOT NULL, width BIGINT NOT NULL, start BIGINT NOT NULL, name TEXT NOT NULL, " +
			strings.Join(named, " BIGINT NOT NULL, ") +
			" BIGINT NOT NULL, PRIMARY KEY (field, width, start, name))" + within,
	}
	return migration(4, up, []string{"DROP TABLE sums", "DROP TABLE minutes"})
}

// segmentTables is the fourteenth migration: exchanges are in segments, and those that there were are gone. It is no
// file, because the databases call bytes by different names.
func segmentTables(db *sqldb.DB) *goose.Migration {
	bytes, within := "BLOB", " WITHOUT ROWID"
	if db.Postgres {
		bytes, within = "BYTEA", ""
	}
	up := append(segstore.Tables(db.Postgres),
		// Batches of records that are in no segment and in no sum yet, as a modelgate.ledger.v1.RecordRequest.
		"CREATE TABLE journal (id TEXT NOT NULL PRIMARY KEY, records "+bytes+" NOT NULL, unreadable SMALLINT NOT NULL)",
		// The ids of exchanges, so that each is kept once, and when it began.
		"CREATE TABLE ids (id TEXT NOT NULL PRIMARY KEY, at BIGINT NOT NULL)"+within,
		"DROP TABLE unfolded", "DROP TABLE attempts", "DROP TABLE exchanges")
	return migration(14, up, []string{"DROP TABLE ids", "DROP TABLE journal", "DROP TABLE segments"})
}

// dailySums is the twenty-second migration. It is no file, because no file lists the measures.
func dailySums(measures []string) *goose.Migration {
	return migration(22, []string{DailySums(measures)}, []string{"DELETE FROM aggregates WHERE level = 4"})
}

// DailySums is the statement that makes sums by day, model and provider (level 4) of those by hour (level 3), if there
// are none. For each hour it reads the rows of some models.
func DailySums(measures []string) string {
	sums := make([]string, len(measures))
	for i, m := range measures {
		sums[i] = sqldb.Sum(m)
	}
	return "INSERT INTO aggregates (level, start, organization, project, api_key, model, upstream_model, provider, operation, " +
		"batch, " + strings.Join(measures, ", ") +
		") SELECT 4, start / 86400 * 86400, '', '', '', model, '', provider, '', 0, " +
		strings.Join(sums, ", ") + " FROM aggregates WHERE level = 3 AND NOT EXISTS (SELECT 1 FROM aggregates WHERE level = 4)" +
		" GROUP BY start / 86400 * 86400, model, provider"
}

// talliesTable is the twenty-third migration. The tallies are empty: the ledger fills them in the background, from the
// segments that there are. It is no file, for the reason of the fourth.
func talliesTable(db *sqldb.DB) *goose.Migration {
	return migration(23, append(tallies.Tables(db.Postgres), segstore.Tallied),
		[]string{"ALTER TABLE segments DROP COLUMN tallied", "DROP TABLE tallies"})
}

func migration(version int64, up, down []string) *goose.Migration {
	run := func(statements []string) *goose.GoFunc {
		return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			for _, s := range statements {
				if _, err := tx.ExecContext(ctx, s); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	return goose.NewGoMigration(version, run(up), run(down))
}
