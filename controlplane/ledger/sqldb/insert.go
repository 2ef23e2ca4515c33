package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Insert is a statement that adds rows to a table. SQLite, which works in this process, runs it for each row, and
// it is prepared once. PostgreSQL gets all rows at once, each column as an array: the statement is the same for any
// number of rows, and there is one answer to wait for.
type Insert struct {
	table, columns, conflict string
}

// NewInsert returns an insert of columns, with its clause for conflicts.
func NewInsert(table, columns, conflict string) *Insert {
	return &Insert{table: table, columns: columns, conflict: conflict}
}

// NewAdding returns an insert that adds the values of some columns to those of the row with the same key.
func NewAdding(table, key string, names []string) *Insert {
	updates := make([]string, len(names))
	for i, name := range names {
		updates[i] = name + " = " + table + "." + name + " + excluded." + name
	}
	return NewInsert(table, key+", "+strings.Join(names, ", "),
		"ON CONFLICT ("+key+") DO UPDATE SET "+strings.Join(updates, ", "))
}

// Values take the rows of an insert, one column after the other.
type Values struct {
	row     []any    // of SQLite: one row
	rows    int      // of PostgreSQL, where all are taken
	columns []column // of PostgreSQL
	next    int      // of the columns
}

// A column has the texts or the numbers of all rows.
type column struct {
	texts   []string
	numbers []int64
}

// Add adds texts and numbers (int64) to the row.
func (v *Values) Add(values ...any) {
	if v.rows == 0 {
		v.row = append(v.row, values...)
		return
	}
	for _, value := range values {
		if v.next == len(v.columns) {
			v.columns = append(v.columns, column{})
		}
		c := &v.columns[v.next]
		v.next++
		switch value := value.(type) {
		case string:
			if c.texts == nil {
				c.texts = make([]string, 0, v.rows)
			}
			c.texts = append(c.texts, value)
		case int64:
			if c.numbers == nil {
				c.numbers = make([]int64, 0, v.rows)
			}
			c.numbers = append(c.numbers, value)
		default:
			panic(fmt.Sprintf("sqldb: a column has no %T", value))
		}
	}
}

// AddAll adds numbers to the row.
func (v *Values) AddAll(numbers []int64) {
	for _, n := range numbers {
		v.Add(n)
	}
}

// Prepare prepares inserts for SQLite, once. It is called before the transaction, which has the only connection, and
// always with the same inserts.
func (d *DB) Prepare(ctx context.Context, all ...*Insert) error {
	if d.Postgres || d.ready.Load() {
		return nil
	}
	for _, in := range all {
		if _, done := d.prepared.Load(in); done {
			continue
		}
		marks := strings.Repeat(", ?", strings.Count(in.columns, ",")+1)[2:]
		stmt, err := d.Write.PrepareContext(ctx, "INSERT INTO "+in.table+" ("+in.columns+") VALUES ("+marks+") "+in.conflict)
		if err != nil {
			return err
		}
		if _, done := d.prepared.LoadOrStore(in, stmt); done {
			_ = stmt.Close() // another call was first
		}
	}
	d.ready.Store(true)
	return nil
}

// Put runs a prepared insert for n rows. Fill gives the values of each, in the order of the columns. If ids is
// set, it returns the first column of the rows that were added or changed: an id.
func (d *DB) Put(ctx context.Context, tx *sql.Tx, in *Insert, ids bool, n int,
	fill func(i int, v *Values)) ([]string, error) {
	if n == 0 { // PostgreSQL has no insert of no rows
		return nil, nil
	}
	if d.Postgres {
		return d.putAll(ctx, tx, in, ids, n, fill)
	}
	kept, ok := d.prepared.Load(in)
	if !ok {
		return nil, errors.New("the statement is not prepared")
	}
	stmt := tx.StmtContext(ctx, kept.(*sql.Stmt))
	each := context.WithoutCancel(ctx) // of the transaction it is heeded, and to heed it for each row takes a goroutine
	var v Values
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

func (d *DB) putAll(ctx context.Context, tx *sql.Tx, in *Insert, ids bool, n int,
	fill func(i int, v *Values)) ([]string, error) {
	v := Values{rows: n, columns: make([]column, 0, strings.Count(in.columns, ",")+1)}
	for i := range n {
		v.next = 0
		fill(i, &v)
	}
	s := d.Statement("INSERT INTO ", in.table, " (", in.columns, ") SELECT * FROM unnest(")
	for i, c := range v.columns {
		if i > 0 {
			s.Add(", ")
		}
		if c.texts != nil {
			s.Add(s.Arg(c.texts), "::text[]")
		} else {
			s.Add(s.Arg(c.numbers), "::bigint[]")
		}
	}
	s.Add(") ", in.conflict)
	if !ids {
		_, err := s.Exec(ctx, tx)
		return nil, err
	}
	s.Add(" RETURNING id")
	var added []string
	err := s.Each(ctx, tx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		added = append(added, id)
		return err
	})
	return added, err
}

// RowsAtOnce is how many rows one statement adds. SQLite takes 32766 arguments.
const RowsAtOnce = 500

// PutRows runs an insert that need not be prepared.
func (d *DB) PutRows(ctx context.Context, db Conn, in *Insert, rows [][]any) error {
	for some := range slices.Chunk(rows, RowsAtOnce) {
		s := d.Statement("INSERT INTO ", in.table, " (", in.columns, ") VALUES ")
		for i, row := range some {
			if i > 0 {
				s.Add(", ")
			}
			marks := make([]string, len(row))
			for i, v := range row {
				marks[i] = s.Arg(v)
			}
			s.Add("(", strings.Join(marks, ", "), ")")
		}
		s.Add(" ", in.conflict)
		if _, err := s.Exec(ctx, db); err != nil {
			return err
		}
	}
	return nil
}
