package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/controlplane/ledger/migrations"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// ErrNotEmpty is returned if a ledger to be filled from a dump holds something.
var ErrNotEmpty = errors.New("the ledger is not empty")

// dumped are the tables of a dump. Of ledger_state it is the count of changes, which those of spent refer to: the
// epoch is the database's own, so that whoever follows what is spent notices that this is another, and reads all of
// it.
var dumped = [...]string{"segments", "ids", "aggregates", "spent", "audit", "audit_tenants", "provider_attempts",
	"minutes", "sums", "versions", "outcomes", "cache_sums", "tallies", "journal", "incidents",
	"incident_transitions", "incident_notes", "ledger_state"}

// A Rows takes the rows of a dump, table by table: columns before the first row of a table, and values of strings and
// int64, which are valid until it returns.
type Rows interface {
	Table(name string, columns []string) error
	Row(values []any) error
}

// Dump gives everything that the ledger holds at one moment to rows. What is in memory is bounded, also where the
// ledger is large.
func (l *Ledger) Dump(ctx context.Context, rows Rows) error {
	options := &sql.TxOptions{ReadOnly: true}
	if l.db.Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := l.db.Read.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("dumping the ledger: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	for _, table := range dumped {
		if err := l.dumpTable(ctx, tx, table, rows); err != nil {
			return fmt.Errorf("dumping the table %s of the ledger: %w", table, err)
		}
	}
	return nil
}

// inline puts the rows of a segment that are in the blob store into its row: a dump needs no blob store.
func (l *Ledger) inline(ctx context.Context, columns []string, values []any) (err error) {
	name, body := slices.Index(columns, "blob"), slices.Index(columns, "body")
	if values[name] != "" {
		values[body], err = l.writer.store.ReadBlob(ctx, fmt.Sprint(values[name]))
		values[name] = ""
	}
	return err
}

// hasBytes reports whether a column has bytes. They are base64 in a dump.
func hasBytes(table, column string) bool {
	return table == "segments" && (column == "summary" || column == "body") || table == "journal" && column == "records"
}

func (l *Ledger) dumpTable(ctx context.Context, tx *sql.Tx, table string, to Rows) error {
	query := "SELECT * FROM " + table
	if table == "ledger_state" {
		query += " WHERE name = 'changes'"
	}
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err says what went wrong
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	if err := to.Table(table, columns); err != nil {
		return err
	}
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		if table == "segments" {
			if err := l.inline(ctx, columns, values); err != nil {
				return err
			}
		}
		for i, v := range values {
			if b, ok := v.([]byte); ok && hasBytes(table, columns[i]) {
				values[i] = base64.StdEncoding.EncodeToString(b)
			}
		}
		if err := to.Row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A Loader fills an empty ledger from a dump, in one transaction: until Commit nothing of it is there. It is used by
// one goroutine.
type Loader struct {
	l       *Ledger
	ctx     context.Context // of the transaction
	tx      *sql.Tx
	table   string
	columns []string
	rows    [][]any
}

var _ Rows = (*Loader)(nil)

// Load begins to fill the ledger. The error is ErrNotEmpty if it holds something. The caller ends it with Commit or
// Abort, and keeps ctx until then.
func (l *Ledger) Load(ctx context.Context) (*Loader, error) {
	tx, err := l.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("filling the ledger: %w", err)
	}
	// Whoever records something that costs waits for this row.
	_, err = l.db.Statement("UPDATE ledger_state SET value = value WHERE name = 'changes'").Exec(ctx, tx)
	for _, table := range dumped[:len(dumped)-1] { // the last is never empty
		if err == nil && strings.HasPrefix(table, "incident") { // a control plane may have opened some by itself
			_, err = l.db.Statement("DELETE FROM ", table).Exec(ctx, tx)
		} else if err == nil {
			err = l.db.Statement("SELECT 1 FROM ", table, " LIMIT 1").Each(ctx, tx,
				func(*sql.Rows) error { return ErrNotEmpty })
		}
	}
	if err != nil {
		return nil, fmt.Errorf("filling the ledger: %w", errors.Join(err, tx.Rollback()))
	}
	return &Loader{l: l, ctx: ctx, tx: tx}, nil
}

// Table begins a table.
func (d *Loader) Table(name string, columns []string) error {
	if err := d.flush(); err != nil {
		return err
	}
	if !slices.Contains(dumped[:], name) {
		return fmt.Errorf("filling the ledger: it has no table %q", name)
	}
	known, err := d.known(name)
	if err != nil {
		return fmt.Errorf("filling the table %s of the ledger: %w", name, err)
	}
	for _, c := range columns { // they become part of statements
		if !slices.Contains(known, c) {
			return fmt.Errorf("filling the table %s of the ledger: it has no column %q", name, c)
		}
	}
	d.table, d.columns = name, columns
	return nil
}

func (d *Loader) known(table string) (columns []string, err error) {
	rows, err := d.tx.QueryContext(d.ctx, "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		return nil, err
	}
	columns, err = rows.Columns()
	return columns, errors.Join(err, rows.Close(), rows.Err())
}

// Row adds a row to the table.
func (d *Loader) Row(values []any) error {
	if len(values) != len(d.columns) {
		return fmt.Errorf("filling the table %q of the ledger: a row of %d values for %d columns", d.table, len(values),
			len(d.columns))
	}
	row, large := slices.Clone(values), false
	d.rows = append(d.rows, row)
	for i, column := range d.columns {
		text, ok := row[i].(string)
		if !ok || !hasBytes(d.table, column) {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("filling the table %s of the ledger: %w", d.table, err)
		}
		row[i], large = b, true
	}
	if len(d.rows) < sqldb.RowsAtOnce && !large {
		return nil
	}
	return d.flush()
}

func (d *Loader) flush() error {
	if len(d.rows) == 0 {
		return nil
	}
	conflict := ""
	if d.table == "ledger_state" {
		conflict = "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
	}
	err := d.l.db.PutRows(d.ctx, d.tx, sqldb.NewInsert(d.table, strings.Join(d.columns, ", "), conflict), d.rows)
	d.rows = d.rows[:0]
	return doing("filling the table "+d.table+" of the ledger", err)
}

// Commit makes everything visible at once.
func (d *Loader) Commit() error {
	if err := d.flush(); err != nil {
		return err
	}
	_, err := d.tx.ExecContext(d.ctx, migrations.DailySums(columns())) // dumps of older versions have none
	return doing("filling the ledger", cmp.Or(err, d.tx.Commit()))
}

// Abort leaves the ledger empty. After Commit it does nothing.
func (d *Loader) Abort() { _ = d.tx.Rollback() }
