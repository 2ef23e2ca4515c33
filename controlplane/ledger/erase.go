package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
)

// UserData counts what of a user there is. The user is not empty.
func (l requestReader) UserData(ctx context.Context, user string) (found adminapi.UserData, err error) {
	ids, err := l.idsOfUser(ctx, user)
	found.Exchanges = int64(len(ids))
	for some := range slices.Chunk(ids, sqldb.RowsAtOnce) {
		if err != nil {
			break
		}
		s := l.db.Statement("SELECT COUNT(*) FROM bodies")
		s.Among("id", some)
		n := int64(0)
		err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&n) })
		found.Bodies += n
	}
	for _, s := range l.sumsOfUser("SELECT COUNT(*)", user) {
		if err != nil {
			break
		}
		n := int64(0)
		err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&n) })
		found.Sums += n
	}
	return found, doing("counting the data of a user", err)
}

// EraseUser removes a user's id from exchanges, which stay without it, and deletes the user's sums. Kept bodies are
// found by the exchanges: erase them before.
func (l requestReader) EraseUser(ctx context.Context, user string) (erased adminapi.UserData, err error) {
	q := segment.Query{Where: segment.Equal(segment.User, text(user))}
	erased.Exchanges, err = l.rewrite(ctx, q, func(r *segment.Row) bool {
		r.User = ""
		return true
	})
	if err != nil {
		return erased, fmt.Errorf("erasing a user from exchanges: %w", err)
	}
	for _, s := range l.sumsOfUser("DELETE", user) {
		n, err := s.Exec(ctx, l.db.Write)
		if erased.Sums += n; err != nil {
			return erased, fmt.Errorf("erasing the sums of a user: %w", err)
		}
	}
	return erased, nil
}

// sumsOfUser returns statements about the sums of a user.
func (l requestReader) sumsOfUser(what, user string) []*sqldb.Statement {
	sums, tallied := l.db.Statement(what, " FROM sums"), l.db.Statement(what, " FROM tallies")
	sums.And("field", "=", sumsOfUsers)
	sums.And("name", "=", text(user))
	tallies.OfUser(tallied, text(user))
	return []*sqldb.Statement{sums, tallied}
}
