// Package ledger keeps what every exchange used and cost, once, in SQLite or PostgreSQL; with it sums by hour and day,
// what was spent of budgets, and the audit log. It answers OpenAI's usage and cost queries, and what the admin API
// shows.
//
// Sums are not computed from the exchanges when somebody asks. They are kept in the transaction that
// inserts the exchanges, for those only that were not there before, and outlive them: exchanges are pruned after a
// month, sums after a year.
//
// A record counts in the hour and the day, UTC, in which its exchange began.
package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// A Ledger is safe for concurrent use, and several of them, in processes of their own, may use one database.
type Ledger struct {
	read, write *sql.DB // the same for PostgreSQL; for SQLite, write is a single connection
	postgres    bool
	file        string                // of SQLite
	prepared    sync.Map              // of SQLite: *insert to *sql.Stmt
	ready       atomic.Bool           // of SQLite: all inserts are prepared
	turn        sync.Mutex            // of SQLite: who writes records
	gathering   sync.Mutex            // guards crowd
	crowd       *crowd                // of SQLite: it waits for its turn, and more may join; or nil
	outdated    bool                  // until Maintain has brought the tables up to date; it alone uses it then
	trouble     atomic.Pointer[error] // why it cannot be used; nil: it can, as far as is known
	log         *zap.Logger
	now         func() time.Time
	unserved    prometheus.Counter
}

// Open opens the ledger that dsn names, sqlite:///path/file.db or postgres://..., and brings its tables up to date.
// The caller closes it. A PostgreSQL that is away is no error: what has to do with configuration does not wait for it.
// [Ledger.Maintain] brings the tables up to date then, and everything else fails until it has.
//
// SQLite syncs every transaction to the disk, so that what is acknowledged outlives a loss of power, as with
// PostgreSQL's default.
func Open(ctx context.Context, dsn string, log *zap.Logger) (*Ledger, error) {
	l := &Ledger{log: log, now: time.Now, unserved: newUnserved()}
	scheme, rest, _ := strings.Cut(dsn, "://")
	var err error
	switch scheme {
	case "postgres", "postgresql":
		err = l.openPostgres(dsn)
	case "sqlite":
		err = l.openSQLite(rest)
	default:
		err = errors.New("it must be sqlite:///path/file.db or postgres://...") // and may hold a password
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	if err = l.migrate(ctx); err != nil {
		l.trouble.Store(&err)
	}
	if l.postgres && isAway(err) {
		l.outdated = true
		log.Warn("the ledger's database is away: what was used waits where it was noted", zap.Error(err))
		return l, nil
	}
	if err != nil && !l.postgres && ctx.Err() == nil {
		l.outdated = true
		log.Error("the ledger cannot be used, and usage records wait in the spools: restore the file from a copy, or move it away",
			zap.String("file", rest), zap.Error(err))
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// Ready reports why the ledger cannot be used, as far as is known, or nil. A path that names no file is a
// [fs.PathError].
func (l *Ledger) Ready() error {
	if err := l.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// isAway reports whether an error says that the database could not be reached.
func isAway(err error) bool {
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	return refused || errors.Is(err, context.DeadlineExceeded)
}

func (l *Ledger) openPostgres(dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return errors.New("the PostgreSQL URL cannot be read") // the driver's error may hold the password
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(tunePlans))
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(idle)
	db.SetConnMaxIdleTime(5 * time.Minute)
	l.read, l.write, l.postgres = db, db, true
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

func (l *Ledger) openSQLite(path string) error {
	if path == "" {
		return errors.New("it names no file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	l.file = path
	// A page that many batches change is copied from the log into the file once for 16 MB of log.
	common := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)",
		"cache_size(-32000)", "temp_store(MEMORY)", "wal_autocheckpoint(4000)"}}
	uri := (&url.URL{Scheme: "file", Path: path}).String()
	if !filepath.IsAbs(path) {
		uri = "file:" + (&url.URL{Path: path}).EscapedPath()
	}
	var err error
	if l.write, err = sql.Open("sqlite", uri+"?_txlock=immediate&"+common.Encode()); err != nil {
		return err
	}
	l.write.SetMaxOpenConns(1)
	common["_pragma"] = append(common["_pragma"], "query_only(1)")
	if l.read, err = sql.Open("sqlite", uri+"?"+common.Encode()); err != nil {
		return errors.Join(err, l.write.Close())
	}
	l.read.SetMaxOpenConns(4)
	return nil
}

// makeFile makes the file of SQLite where it is missing: the driver makes files that all may read.
func (l *Ledger) makeFile() error {
	f, err := os.OpenFile(l.file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// migrateTimeout bounds one try to bring the tables up to date; others that do so may have to be waited for.
const migrateTimeout = time.Minute

func (l *Ledger) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if !l.postgres {
		if err := l.makeFile(); err != nil {
			return err
		}
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{goose.WithTableName("ledger_migrations"),
		goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(l.sumTables())}
	if l.postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // other control planes start, too
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, l.write, folder, options...)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bringing the tables up to date: %w", err)
	}
	s := l.statement("INSERT INTO ledger_state (name, value) VALUES ('changes', 0), ('epoch', ")
	s.add(s.arg(rand.Int64()), ") ON CONFLICT (name) DO NOTHING")
	if _, err = s.exec(ctx, l.write); err != nil {
		return err
	}
	return l.fillOutcomes(ctx, l.write)
}

// Close closes the connections to the database.
func (l *Ledger) Close() error {
	if l.read == l.write {
		return l.read.Close()
	}
	return errors.Join(l.read.Close(), l.write.Close())
}
