package ledger

import (
	"context"
	"database/sql"
	"fmt"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const (
	// eraseAtOnce bounds a transaction that erases, so that records do not wait for it.
	eraseAtOnce = 1000
	// eraseMost bounds the transactions of a call.
	eraseMost = 50
)

// UserData counts what of a user there is. The user is not empty.
func (l *Ledger) UserData(ctx context.Context, user string) (found adminapi.UserData, err error) {
	for _, count := range []struct {
		to   *int64
		from func(*statement)
	}{
		{&found.Exchanges, func(s *statement) { s.add("exchanges"); s.ofUser(user) }},
		{&found.Sums, func(s *statement) { s.add("sums"); s.sumsOfUser(user) }},
		{&found.Bodies, func(s *statement) { s.add("bodies"); s.bodiesOfUser(user) }},
	} {
		s := l.statement("SELECT COUNT(*) FROM ")
		count.from(s)
		if err := s.each(ctx, l.read, func(rows *sql.Rows) error { return rows.Scan(count.to) }); err != nil {
			return found, fmt.Errorf("counting the data of a user: %w", err)
		}
	}
	return found, nil
}

// EraseUser removes a user's id from exchanges, which stay without it, and deletes the user's sums. It does so in
// pieces, and says in More whether it has to be called again. Kept bodies are found by the exchanges: erase them
// before.
func (l *Ledger) EraseUser(ctx context.Context, user string) (erased adminapi.UserData, err error) {
	row := "rowid"
	if l.postgres {
		row = "ctid"
	}
	for range eraseMost {
		s := l.statement("UPDATE exchanges SET user_id = '' WHERE ", row, " IN (SELECT ", row, " FROM exchanges")
		s.ofUser(user)
		s.add(" LIMIT ", s.arg(eraseAtOnce), ")")
		n, err := s.exec(ctx, l.write)
		erased.Exchanges += n
		if err != nil {
			return erased, fmt.Errorf("erasing a user from exchanges: %w", err)
		}
		if n < eraseAtOnce {
			s := l.statement("DELETE FROM sums")
			s.sumsOfUser(user)
			if erased.Sums, err = s.exec(ctx, l.write); err != nil {
				return erased, fmt.Errorf("erasing the sums of a user: %w", err)
			}
			return erased, nil
		}
	}
	erased.More = true
	return erased, nil
}

func (s *statement) ofUser(user string) {
	s.condition("user_id <> ''") // as the index has it
	s.and("user_id", "=", text(user))
}

func (s *statement) sumsOfUser(user string) {
	s.and("field", "=", sumsOfUsers)
	s.and("name", "=", text(user))
}

func (s *statement) bodiesOfUser(user string) {
	s.condition("id IN (SELECT id FROM exchanges WHERE user_id <> '' AND user_id = " + s.arg(text(user)) + ")")
}
