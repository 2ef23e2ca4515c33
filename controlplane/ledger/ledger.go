// Package ledger keeps what every exchange used and cost, once, in SQLite or PostgreSQL; with it sums by hour and day,
// what was spent of budgets, and the audit log. It answers OpenAI's usage and cost queries, and what the admin API
// shows.
//
// Records that come are a row of the journal. Within a second, and before anything is read, many such rows are folded:
// they become one segment of exchanges, which package segstore merges with others, and are added to the sums. Read the
// tables of sums only after [folder.folded]. Exchanges are pruned after a month, sums after a year.
//
// A record counts in the hour and the day, UTC, in which its exchange began.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/controlplane/ledger/migrations"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/versions"
)

// A Ledger is safe for concurrent use, and several of them, in processes of their own, may use one database. What it
// does has a type for each subject, over one database.
type Ledger struct {
	db *sqldb.DB
	writer
	requestReader
	usageReader
	auditStore
	versions.Store
	outdated bool                  // until Maintain has brought the tables up to date; it alone uses it then
	trouble  atomic.Pointer[error] // why it cannot be used; nil: it can, as far as is known
	log      *zap.Logger
	unserved prometheus.Counter
}

// A requestReader reads the request log, and what is kept of requests.
type requestReader struct {
	db *sqldb.DB
	*folder
}

// A usageReader reads sums: usage, costs, budgets and health.
type usageReader struct {
	db *sqldb.DB
	*folder
}

// Open opens the ledger that dsn names, sqlite:///path/file.db or postgres://..., and brings its tables up to date.
// The caller closes it. A PostgreSQL that cannot be reached, or a full disk, is no error: the configuration does not
// wait for it. [Ledger.Maintain] brings the tables up to date then, and everything else fails until it has.
//
// SQLite syncs every transaction to the disk, so that what is acknowledged outlives a loss of power, as with
// PostgreSQL's default.
func Open(ctx context.Context, dsn string, log *zap.Logger) (*Ledger, error) {
	db := &sqldb.DB{Now: time.Now}
	folder := newFolder(db, log)
	l := &Ledger{db: db, writer: writer{db: db, folder: folder}, requestReader: requestReader{db, folder},
		usageReader: usageReader{db, folder},
		auditStore:  auditStore{db}, Store: versions.Store{DB: db}, log: log, unserved: newUnserved()}
	scheme, rest, _ := strings.Cut(dsn, "://")
	var err error
	switch scheme {
	case "postgres", "postgresql":
		err = db.OpenPostgres(dsn)
	case "sqlite":
		err = db.OpenSQLite(rest)
	default:
		err = errors.New("it must be sqlite:///path/file.db or postgres://...") // and may hold a password
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	if err = l.migrate(ctx); err != nil {
		l.trouble.Store(&err)
	}
	if sqldb.IsAway(err) {
		l.outdated = true
		log.Warn("the database of the ledger is unavailable: records of use wait in the spools", zap.Error(err))
		return l, nil
	}
	if err != nil {
		what := "opening the ledger"
		if !l.db.Postgres {
			what = fmt.Sprintf("opening the ledger %s (restore it from a copy, or move it away)", rest)
		}
		return nil, fmt.Errorf("%s: %w", what, errors.Join(err, l.db.Close()))
	}
	return l, nil
}

// Use sets the blob store that exchanges go to, by day, when there are enough of them. Without one they stay in the
// database. It is called before anything else.
func (l *Ledger) Use(bucket *blob.Bucket) { l.writer.store.Use(bucket, l.owner) }

// owner returns what names this database among those that may ever use a blob store.
func (l *Ledger) owner(ctx context.Context) (owner string, err error) {
	s := l.db.Statement("SELECT value FROM ledger_state WHERE name = 'epoch'")
	err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var epoch int64
		err := rows.Scan(&epoch)
		owner = strconv.FormatInt(epoch, 36)
		return err
	})
	if err == nil && owner == "" {
		err = errors.New("the ledger has no epoch")
	}
	return owner, err
}

// Ready reports why the ledger cannot be used, as far as is known, or nil.
func (l *Ledger) Ready() error {
	if err := l.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// migrateTimeout bounds one try to bring the tables up to date; others that do so may have to be waited for.
const migrateTimeout = time.Minute

func (l *Ledger) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := migrations.Up(ctx, l.db, columns(), strings.Split(namedColumns, ", ")); err != nil {
		return fmt.Errorf("bringing the tables up to date: %w", err)
	}
	s := l.db.Statement("INSERT INTO ledger_state (name, value) VALUES ('changes', 0), ('epoch', ")
	s.Add(s.Arg(rand.Int64()), ") ON CONFLICT (name) DO NOTHING")
	_, err := s.Exec(ctx, l.db.Write)
	return err
}

// Close closes the connections to the database.
func (l *Ledger) Close() error { return l.db.Close() }
