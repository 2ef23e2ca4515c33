package ledger

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
)

// An insert is a statement that adds rows to a table. SQLite, which works in this process, runs it for each row, and
// it is prepared once. PostgreSQL gets all rows at once, each column as an array: the statement is the same for any
// number of rows, and there is one answer to wait for.
type insert struct {
	table, columns, conflict string
}

func newInsert(table, columns, conflict string) *insert {
	return &insert{table: table, columns: columns, conflict: conflict}
}

// Values take the rows of an insert, one column after the other.
type values struct {
	row    []any    // of SQLite: one row
	rows   int      // of PostgreSQL, where all are taken
	arrays []column // of PostgreSQL
	next   int      // of the arrays
	number [20]byte // in decimals
}

// A column is an array in PostgreSQL's notation, without its end.
type column struct {
	kind string
	text strings.Builder
}

func (v *values) addText(s string) {
	if v.rows == 0 {
		v.row = append(v.row, s)
		return
	}
	text := v.column("text", 4+len(s))
	text.WriteByte('"')
	for i := strings.IndexAny(s, `"\`); i >= 0; i = strings.IndexAny(s, `"\`) {
		text.WriteString(s[:i])
		text.WriteByte('\\')
		text.WriteByte(s[i])
		s = s[i+1:]
	}
	text.WriteString(s)
	text.WriteByte('"')
}

func (v *values) addNumber(n int64) {
	if v.rows == 0 {
		v.row = append(v.row, n)
		return
	}
	digits := strconv.AppendInt(v.number[:0], n, 10)
	v.column("bigint", 2+len(digits)).Write(digits)
}

// column returns the next, ready for an element. Its size is guessed by that of the first.
func (v *values) column(kind string, size int) *strings.Builder {
	first := v.next == len(v.arrays)
	if first {
		v.arrays = append(v.arrays, column{kind: kind})
	}
	text := &v.arrays[v.next].text
	v.next++
	if first {
		text.Grow(v.rows * size)
		text.WriteByte('{')
	} else {
		text.WriteByte(',')
	}
	return text
}

// prepare prepares the inserts of records for SQLite, once. It is called before the transaction, which has the only
// connection.
func (l *Ledger) prepare(ctx context.Context) error {
	if l.postgres || l.ready.Load() {
		return nil
	}
	all := []*insert{intoExchanges, intoAggregates, intoMinutes, intoSums, intoSpent, intoAttempts, intoProviders,
		intoOutcomes}
	for _, in := range all {
		if _, done := l.prepared.Load(in); done {
			continue
		}
		marks := strings.Repeat(", ?", strings.Count(in.columns, ",")+1)[2:]
		stmt, err := l.write.PrepareContext(ctx, "INSERT INTO "+in.table+" ("+in.columns+") VALUES ("+marks+") "+in.conflict)
		if err != nil {
			return err
		}
		if _, done := l.prepared.LoadOrStore(in, stmt); done {
			_ = stmt.Close() // another call was first
		}
	}
	l.ready.Store(true)
	return nil
}

// put runs an insert, which is prepared, for n rows, each of which fill gives the values of, in the order of the
// columns. Of rows that were added or changed it returns the first column, where that is wanted: an id.
func (l *Ledger) put(ctx context.Context, tx *sql.Tx, in *insert, ids bool, n int,
	fill func(i int, v *values)) ([]string, error) {
	if l.postgres {
		return l.putAll(ctx, tx, in, ids, n, fill)
	}
	kept, ok := l.prepared.Load(in)
	if !ok {
		return nil, errors.New("the statement is not prepared")
	}
	stmt := tx.StmtContext(ctx, kept.(*sql.Stmt))
	each := context.WithoutCancel(ctx) // of the transaction it is heeded, and to heed it for each row takes a goroutine
	var v values
	var added []string
	for i := range n {
		v.row = v.row[:0]
		fill(i, &v)
		result, err := stmt.ExecContext(each, v.row...)
		if err != nil {
			return nil, err
		}
		if !ids {
			continue
		}
		if changed, err := result.RowsAffected(); err != nil {
			return nil, err
		} else if changed > 0 {
			added = append(added, v.row[0].(string))
		}
	}
	return added, nil
}

func (l *Ledger) putAll(ctx context.Context, tx *sql.Tx, in *insert, ids bool, n int,
	fill func(i int, v *values)) ([]string, error) {
	v := values{rows: n, arrays: make([]column, 0, strings.Count(in.columns, ",")+1)}
	for i := range n {
		v.next = 0
		fill(i, &v)
	}
	s := l.statement("INSERT INTO ", in.table, " (", in.columns, ") SELECT * FROM unnest(")
	for i := range v.arrays {
		c := &v.arrays[i]
		if i > 0 {
			s.add(", ")
		}
		c.text.WriteByte('}')
		s.add(s.arg(c.text.String()), "::", c.kind, "[]")
	}
	s.add(") ", in.conflict)
	if !ids {
		_, err := s.exec(ctx, tx)
		return nil, err
	}
	s.add(" RETURNING id")
	var added []string
	err := s.each(ctx, tx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		added = append(added, id)
		return err
	})
	return added, err
}
