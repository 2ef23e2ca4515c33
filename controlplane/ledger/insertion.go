package ledger

import (
	"context"
	"database/sql"
	"strings"
	"sync"

	"github.com/modelgate/modelgate/internal/usage"
)

// sizes are how many rows one INSERT has: few, so that each statement is prepared once, however many records come
// together. SQLite takes 32766 arguments.
var sizes = [...]int{128, 16, 4, 1}

// An insertion inserts any number of rows into a table.
type insertion struct {
	columns int
	texts   [len(sizes)]string

	mu       sync.Mutex
	prepared [len(sizes)]*sql.Stmt
}

// insertion returns one that says what is to be done with rows that are there already.
func (l *Ledger) insertion(table string, columns []string, conflict string) *insertion {
	in := &insertion{columns: len(columns)}
	for i, size := range sizes {
		s := l.statement("INSERT INTO ", table, " (", strings.Join(columns, ", "), ") VALUES ")
		for row := range size {
			if row > 0 {
				s.add(", ")
			}
			s.add("(", s.list(make([]string, len(columns))), ")")
		}
		s.add(" ON CONFLICT ", conflict)
		in.texts[i] = s.text.String()
	}
	return in
}

// insertions are those that keep records.
type insertions struct{ exchanges, aggregates, spent *insertion }

func (l *Ledger) insertions() insertions {
	var add strings.Builder
	for i, name := range columns() {
		if i > 0 {
			add.WriteString(", ")
		}
		add.WriteString(name + " = aggregates." + name + " + excluded." + name)
	}
	return insertions{
		exchanges: l.insertion("exchanges", exchangeColumns(), "(id) DO NOTHING RETURNING id"),
		aggregates: l.insertion("aggregates", append(strings.Split(groupColumns, ", "), columns()...),
			"("+groupColumns+") DO UPDATE SET "+add.String()),
		spent: l.insertion("spent", []string{"subject", "period", "start", "cost", "changed"},
			"(subject, period, start) DO UPDATE SET cost = spent.cost + excluded.cost, changed = excluded.changed"),
	}
}

func exchangeColumns() []string {
	all := append(strings.Split(exchangeHead, ", "), usage.Columns()...)
	return append(all, strings.Split(exchangeTail, ", ")...)
}

// prepare prepares the statements that are not yet. It is called before the transaction, which takes the only
// connection that SQLite has for writing. The driver of PostgreSQL prepares by itself.
func (l *Ledger) prepare(ctx context.Context) error {
	if l.postgres {
		return nil
	}
	for _, in := range []*insertion{l.inserts.exchanges, l.inserts.aggregates, l.inserts.spent} {
		if err := in.prepare(ctx, l.write); err != nil {
			return err
		}
	}
	return nil
}

func (in *insertion) prepare(ctx context.Context, db *sql.DB) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range sizes {
		if in.prepared[i] != nil {
			continue
		}
		if in.prepared[i], err = db.PrepareContext(ctx, in.texts[i]); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts n rows, whose values are appended one row after the other, and calls f for each row that the database
// returns.
func (in *insertion) insert(ctx context.Context, tx *sql.Tx, n int, values func(to []any, row int) []any,
	f func(*sql.Rows) error) error {
	args := make([]any, 0, min(n, sizes[0])*in.columns)
	for at, size := 0, 0; at < n; {
		for n-at < sizes[size] {
			size++
		}
		args = args[:0]
		for row := range sizes[size] {
			args = values(args, at+row)
		}
		at += sizes[size]
		rows, err := in.query(ctx, tx, size, args)
		if err != nil {
			return err
		}
		if err := eachOf(rows, f); err != nil {
			return err
		}
	}
	return nil
}

func (in *insertion) query(ctx context.Context, tx *sql.Tx, size int, args []any) (*sql.Rows, error) {
	if s := in.prepared[size]; s != nil {
		return tx.StmtContext(ctx, s).QueryContext(ctx, args...)
	}
	return tx.QueryContext(ctx, in.texts[size], args...)
}
