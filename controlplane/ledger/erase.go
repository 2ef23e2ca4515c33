package ledger

import (
	"context"
	"database/sql"
	"fmt"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const (
	// eraseAtOnce bounds a transaction that erases, so that records do not wait for it.
	eraseAtOnce = 1000
	// eraseMost bounds the transactions of a call.
	eraseMost = 50
)

// UserData counts what of a user there is. The user is not empty.
func (l requestReader) UserData(ctx context.Context, user string) (found adminapi.UserData, err error) {
	if err := l.folded(ctx); err != nil {
		return found, err
	}
	for _, count := range []struct {
		to   *int64
		from func(*sqldb.Statement)
	}{
		{&found.Exchanges, func(s *sqldb.Statement) { s.Add("exchanges"); ofUser(s, user) }},
		{&found.Sums, func(s *sqldb.Statement) { s.Add("sums"); sumsOfUser(s, user) }},
		{&found.Bodies, func(s *sqldb.Statement) { s.Add("bodies"); bodiesOfUser(s, user) }},
	} {
		s := l.db.Statement("SELECT COUNT(*) FROM ")
		count.from(s)
		if err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(count.to) }); err != nil {
			return found, fmt.Errorf("counting the data of a user: %w", err)
		}
	}
	return found, nil
}

// EraseUser removes a user's id from exchanges, which stay without it, and deletes the user's sums. It does so in
// pieces, and says in More whether it has to be called again. Kept bodies are found by the exchanges: erase them
// before.
func (l requestReader) EraseUser(ctx context.Context, user string) (erased adminapi.UserData, err error) {
	if err := l.folded(ctx); err != nil {
		return erased, err
	}
	row := "rowid"
	if l.db.Postgres {
		row = "ctid"
	}
	for range eraseMost {
		s := l.db.Statement("UPDATE exchanges SET user_id = '' WHERE ", row, " IN (SELECT ", row, " FROM exchanges")
		ofUser(s, user)
		s.Add(" LIMIT ", s.Arg(eraseAtOnce), ")")
		n, err := s.Exec(ctx, l.db.Write)
		erased.Exchanges += n
		if err != nil {
			return erased, fmt.Errorf("erasing a user from exchanges: %w", err)
		}
		if n < eraseAtOnce {
			s := l.db.Statement("DELETE FROM sums")
			sumsOfUser(s, user)
			if erased.Sums, err = s.Exec(ctx, l.db.Write); err != nil {
				return erased, fmt.Errorf("erasing the sums of a user: %w", err)
			}
			return erased, nil
		}
	}
	erased.More = true
	return erased, nil
}

func ofUser(s *sqldb.Statement, user string) {
	s.Condition("user_id <> ''") // as the index has it
	s.And("user_id", "=", text(user))
}

func sumsOfUser(s *sqldb.Statement, user string) {
	s.And("field", "=", sumsOfUsers)
	s.And("name", "=", text(user))
}

func bodiesOfUser(s *sqldb.Statement, user string) {
	s.Condition("id IN (SELECT id FROM exchanges WHERE user_id <> '' AND user_id = " + s.Arg(text(user)) + ")")
}
