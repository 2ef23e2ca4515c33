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

// Values take the rows of an insert, one column after the other.
type values struct {
	postgres bool
	row      []any    // of SQLite: one row
	arrays   []column // of PostgreSQL: all rows
	next     int      // of the arrays
}

// A column is an array in PostgreSQL's notation, which begins with a comma.
type column struct {
	kind string
	text []byte
}

func (v *values) string(s string) {
	if !v.postgres {
		v.row = append(v.row, s)
		return
	}
	c := v.column("text")
	c.text = append(c.text, '"')
	for i := strings.IndexAny(s, `"\`); i >= 0; i = strings.IndexAny(s, `"\`) {
		c.text = append(append(c.text, s[:i]...), '\\', s[i])
		s = s[i+1:]
	}
	c.text = append(append(c.text, s...), '"')
}

func (v *values) number(n int64) {
	if !v.postgres {
		v.row = append(v.row, n)
		return
	}
	c := v.column("bigint")
	c.text = strconv.AppendInt(c.text, n, 10)
}

func (v *values) column(kind string) *column {
	if v.next == len(v.arrays) {
		v.arrays = append(v.arrays, column{kind: kind})
	}
	c := &v.arrays[v.next]
	v.next++
	c.text = append(c.text, ',')
	return c
}

// prepare prepares inserts for SQLite, where that has not been done. It is called before the transaction, which has
// the only connection.
func (l *Ledger) prepare(ctx context.Context, all ...insert) error {
	if l.postgres {
		return nil
	}
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
	return nil
}

// put runs an insert, which is prepared, for n rows, each of which fill gives the values of, in the order of the
// columns. Of rows that were added or changed it returns the first column, where that is wanted: an id.
func (l *Ledger) put(ctx context.Context, tx *sql.Tx, in insert, ids bool, n int,
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

func (l *Ledger) putAll(ctx context.Context, tx *sql.Tx, in insert, ids bool, n int,
	fill func(i int, v *values)) ([]string, error) {
	v := values{postgres: true}
	for i := range n {
		v.next = 0
		fill(i, &v)
	}
	s := l.statement("INSERT INTO ", in.table, " (", in.columns, ") SELECT * FROM unnest(")
	for i, c := range v.arrays {
		if i > 0 {
			s.add(", ")
		}
		c.text[0] = '{'
		s.add(s.arg(string(append(c.text, '}'))), "::", c.kind, "[]")
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
