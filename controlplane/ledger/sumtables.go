package ledger

import (
	"context"
	"database/sql"
	"strings"

	"github.com/pressly/goose/v3"
)

// sumTables is the fourth migration. It is no file, because SQLite is to keep the rows in their keys: to add to a row
// takes half as many pages then, and PostgreSQL has no such tables.
func (l *Ledger) sumTables() *goose.Migration {
	within := ""
	if !l.postgres {
		within = " WITHOUT ROWID"
	}
	up := []string{
		// By minute, of all tenants together.
		"CREATE TABLE minutes (start BIGINT NOT NULL, model TEXT NOT NULL, provider TEXT NOT NULL, " +
			strings.Join(columns(), " BIGINT NOT NULL, ") + " BIGINT NOT NULL, PRIMARY KEY (start, model, provider))" + within,
		// Of keys (field 1) and of users (field 2), whatever else they are of: of an hour (width 3600) and of a day (width
		// 86400), in seconds.
		"CREATE TABLE sums (field SMALLINT NOT NULL, width BIGINT NOT NULL, start BIGINT NOT NULL, name TEXT NOT NULL, " +
			strings.ReplaceAll(namedColumns, ",", " BIGINT NOT NULL,") +
			" BIGINT NOT NULL, PRIMARY KEY (field, width, start, name))" + within,
		// From when on both are whole.
		"CREATE TABLE sums_since (id SMALLINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL)",
	}
	run := func(ctx context.Context, tx *sql.Tx, statements []string) error {
		for _, s := range statements {
			if _, err := tx.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
	return goose.NewGoMigration(4, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if err := run(ctx, tx, up); err != nil {
			return err
		}
		return l.noteSums(ctx, tx)
	}}, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		return run(ctx, tx, []string{"DROP TABLE sums_since", "DROP TABLE sums", "DROP TABLE minutes"})
	}})
}
