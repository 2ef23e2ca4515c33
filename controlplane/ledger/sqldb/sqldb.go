// Package sqldb is a database, SQLite or PostgreSQL: statements that both understand, and inserts of many rows.
//
// Text that comes from elsewhere is only ever an argument of a statement (see [Statement.Arg]), never a part of it.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/modelgate/modelgate/internal/turns"
)

// A DB is a database: SQLite, or PostgreSQL.
type DB struct {
	Read, Write *sql.DB // the same for PostgreSQL; for SQLite, write is a single connection
	Postgres    bool
	File        string      // of SQLite
	prepared    sync.Map    // of SQLite: *insert to *sql.Stmt
	ready       atomic.Bool // of SQLite: all inserts are prepared
	Now         func() time.Time

	turns *turns.Turns // of the owners of queries
}

// OpenPostgres opens the PostgreSQL that a URL names. It does not connect.
func (d *DB) OpenPostgres(dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return errors.New("the PostgreSQL URL cannot be read") // the driver's error may hold the password
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(tunePlans))
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(idle)
	db.SetConnMaxIdleTime(5 * time.Minute)
	d.Read, d.Write, d.Postgres, d.turns = db, db, true, turns.New(connections/2, maxWaiting)
	return nil
}

// tunePlans sets how PostgreSQL plans the queries of a connection. A plan for any arguments reads all keys of a week
// where five are asked for. To compile a query takes longer than the ledger's longest one. A database that does not
// know a setting plans as it does.
func tunePlans(ctx context.Context, conn *pgx.Conn) error {
	for _, setting := range []string{"jit = off", "plan_cache_mode = force_custom_plan"} {
		_, err := conn.Exec(ctx, "SET "+setting)
		if _, unknown := errors.AsType[*pgconn.PgError](err); err != nil && !unknown {
			return err
		}
	}
	return nil
}

// OpenSQLite opens a file, which need not be there.
func (d *DB) OpenSQLite(path string) error {
	if path == "" {
		return errors.New("it names no file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	d.File = path
	// A page that many batches change is copied from the log into the file once for 16 MB of log.
	common := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)",
		"cache_size(-32000)", "temp_store(MEMORY)", "wal_autocheckpoint(4000)"}}
	uri := (&url.URL{Scheme: "file", Path: path}).String()
	if !filepath.IsAbs(path) {
		uri = "file:" + (&url.URL{Path: path}).EscapedPath()
	}
	var err error
	if d.Write, err = sql.Open("sqlite", uri+"?_txlock=immediate&"+common.Encode()); err != nil {
		return err
	}
	d.Write.SetMaxOpenConns(1)
	common["_pragma"] = append(common["_pragma"], "query_only(1)")
	if d.Read, err = sql.Open("sqlite", uri+"?"+common.Encode()); err != nil {
		return errors.Join(err, d.Write.Close())
	}
	d.Read.SetMaxOpenConns(readers)
	d.turns = turns.New(readers-1, maxWaiting)
	return nil
}

// MakeFile makes the file of SQLite if it is missing: the driver makes files that all may read.
func (d *DB) MakeFile() error {
	f, err := os.OpenFile(d.File, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close closes the connections to the database.
func (d *DB) Close() error {
	if d.Read == d.Write {
		return d.Read.Close()
	}
	return errors.Join(d.Read.Close(), d.Write.Close())
}

// IsAway reports whether an error says that the database could not be reached, or has no room: time may mend that.
func IsAway(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff { // the other bits are details
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL:
			return true
		}
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	return refused || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// DeleteAll deletes the rows of a table that a condition selects, some at a time, and returns how many.
func (d *DB) DeleteAll(ctx context.Context, table string, condition func(*Statement)) (total int64, err error) {
	row := "rowid"
	if d.Postgres {
		row = "ctid"
	}
	for {
		s := d.Statement("DELETE FROM ", table, " WHERE ", row, " IN (SELECT ", row, " FROM ", table)
		condition(s)
		s.Add(" LIMIT ", s.Arg(pruneAtOnce), ")")
		n, err := s.Exec(ctx, d.Write)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

const (
	// pruneAtOnce bounds a transaction that prunes, so that records do not wait for it.
	pruneAtOnce = 2000
	// idle is how many connections are kept for what comes next.
	idle = 4
	// connections are those to PostgreSQL at most, and readers those to SQLite that only read.
	connections = 16
	readers     = 4
)

// Transact calls f in a transaction, which it commits if f returns no error.
func (d *DB) Transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := d.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
