package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelgate/modelgate/internal/turns"
)

// A Statement is SQL under construction, with its arguments. Text that comes from elsewhere is only ever an argument.
type Statement struct {
	of    *DB
	text  strings.Builder
	args  []any
	where bool // a condition was added
}

// Statement returns a statement that begins with some parts.
func (d *DB) Statement(parts ...string) *Statement {
	s := &Statement{of: d}
	s.Add(parts...)
	return s
}

// Add adds parts of SQL.
func (s *Statement) Add(parts ...string) {
	for _, p := range parts {
		s.text.WriteString(p)
	}
}

// Arg adds an argument and returns what stands for it.
func (s *Statement) Arg(v any) string {
	s.args = append(s.args, v)
	if s.of.Postgres {
		return "$" + strconv.Itoa(len(s.args))
	}
	return "?"
}

// And adds a condition: a column, an operator, and a value.
func (s *Statement) And(column, operator string, v any) {
	s.Condition(column + " " + operator + " " + s.Arg(v))
}

// Condition adds a condition in SQL.
func (s *Statement) Condition(text string) {
	if s.where {
		s.Add(" AND ", text)
		return
	}
	s.where = true
	s.Add(" WHERE ", text)
}

// Begins is the condition that a column begins with a text.
func (s *Statement) Begins(column, text string) string {
	return "substr(" + column + ", 1, " + strconv.Itoa(utf8.RuneCountInString(text)) + ") = " + s.Arg(text)
}

// Contains is the condition that a column has a text somewhere.
func (s *Statement) Contains(column, text string) string {
	find := "instr("
	if s.of.Postgres {
		find = "strpos("
	}
	return find + column + ", " + s.Arg(text) + ") > 0"
}

// Equal adds a condition unless the value is empty.
func (s *Statement) Equal(column, value string) {
	if value != "" {
		s.And(column, "=", value)
	}
}

// Among adds a condition unless there are no values.
func (s *Statement) Among(column string, values []string) {
	if len(values) > 0 {
		s.Condition(column + " IN (" + s.List(values) + ")")
	}
}

// List adds arguments and returns what stands for them, with commas between.
func (s *Statement) List(values []string) string {
	marks := make([]string, len(values))
	for i, v := range values {
		marks[i] = s.Arg(v)
	}
	return strings.Join(marks, ", ")
}

// A Conn is a database, or a transaction of it.
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Exec runs the statement, and returns how many rows it has changed.
func (s *Statement) Exec(ctx context.Context, db Conn) (int64, error) {
	result, err := db.ExecContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each calls f for every row. A query on behalf of an owner waits for its turn, as [For] says.
func (s *Statement) Each(ctx context.Context, db Conn, f func(*sql.Rows) error) error {
	var turn turns.Turn
	if err := s.of.take(ctx, &turn, db); err != nil {
		return err
	}
	defer turn.Release()
	rows, err := db.QueryContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err says what went wrong
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// All returns every row. Into returns where its columns go.
func All[T any](ctx context.Context, s *Statement, db Conn, into func(*T) []any) ([]T, error) {
	var all []T
	err := s.Each(ctx, db, func(rows *sql.Rows) error {
		var one T
		err := rows.Scan(into(&one)...)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// A Time takes a column with Unix time in units of its own, such as microseconds.
type Time struct {
	To   *time.Time
	Unit time.Duration
}

// Scan implements [sql.Scanner].
func (t Time) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a time is a number, not a %T", v)
	}
	*t.To = time.Unix(0, 0).Add(time.Duration(n) * t.Unit).UTC()
	return nil
}

// MaxText is how many bytes of a text are kept.
const MaxText = 256

// Text returns what of a string a database can hold.
func Text(s string) string {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

// Whole returns what of a string a database can hold: all of it.
func Whole(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// Flag returns a bool as databases keep it.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Sum returns the expression for a column's sum. In PostgreSQL the sum of numbers has another type than the numbers.
func Sum(what string) string { return "CAST(SUM(" + what + ") AS BIGINT)" }
