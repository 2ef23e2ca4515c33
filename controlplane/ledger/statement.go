package ledger

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A statement is SQL under construction, with its arguments. Text that comes from elsewhere is only ever an argument.
type statement struct {
	text     strings.Builder
	args     []any
	postgres bool
	where    bool // a condition was added
}

func (l *Ledger) statement(parts ...string) *statement {
	s := &statement{postgres: l.postgres}
	s.add(parts...)
	return s
}

func (s *statement) add(parts ...string) {
	for _, p := range parts {
		s.text.WriteString(p)
	}
}

// arg adds an argument and returns what stands for it.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	if s.postgres {
		return "$" + strconv.Itoa(len(s.args))
	}
	return "?"
}

// and adds a condition: a column, an operator, and a value.
func (s *statement) and(column, operator string, v any) {
	s.condition(column + " " + operator + " " + s.arg(v))
}

func (s *statement) condition(text string) {
	if s.where {
		s.add(" AND ", text)
		return
	}
	s.where = true
	s.add(" WHERE ", text)
}

// begins is the condition that a column begins with a text.
func (s *statement) begins(column, text string) string {
	return "substr(" + column + ", 1, " + strconv.Itoa(utf8.RuneCountInString(text)) + ") = " + s.arg(text)
}

// contains is the condition that a column has a text somewhere.
func (s *statement) contains(column, text string) string {
	find := "instr("
	if s.postgres {
		find = "strpos("
	}
	return find + column + ", " + s.arg(text) + ") > 0"
}

// equal adds a condition unless the value is empty.
func (s *statement) equal(column, value string) {
	if value != "" {
		s.and(column, "=", value)
	}
}

// among adds a condition unless there are no values.
func (s *statement) among(column string, values []string) {
	if len(values) > 0 {
		s.condition(column + " IN (" + s.list(values) + ")")
	}
}

func (s *statement) list(values []string) string {
	marks := make([]string, len(values))
	for i, v := range values {
		marks[i] = s.arg(v)
	}
	return strings.Join(marks, ", ")
}

// row adds the values of one row of an INSERT.
func (s *statement) row(first bool, values []any) {
	if !first {
		s.add(", ")
	}
	s.add("(")
	for i, v := range values {
		if i > 0 {
			s.add(", ")
		}
		s.add(s.arg(v))
	}
	s.add(")")
}

// A database is one, or a transaction of it.
type database interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (s *statement) exec(ctx context.Context, db database) (int64, error) {
	result, err := db.ExecContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each calls f for every row.
func (s *statement) each(ctx context.Context, db database, f func(*sql.Rows) error) error {
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
