package segstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// A Tally is what adds rows to the tallies.
type Tally interface {
	// Columns are those that it reads.
	Columns() []segment.Column
	// Add adds a row to what it gathers.
	Add(r *segment.Row)
	// Put adds what it has gathered to the tallies.
	Put(ctx context.Context, tx *sql.Tx) error
}

const (
	// tallyRows is how many rows are tallied in one transaction, about. The more they are, the fewer sums change for
	// each.
	tallyRows = 4 * segment.GroupRows
	// tallyAfter is how long rows wait to be as many.
	tallyAfter = 10 * time.Minute
)

// TallyNext adds the rows of some segments to the tallies, each once, and returns whether there were enough. If a
// segment is gone meanwhile, it adds nothing: try again.
func (s *Store) TallyNext(ctx context.Context, all bool, make func() Tally) (more bool, err error) {
	listed, err := s.list(ctx)
	if err != nil {
		return false, err
	}
	some := forTally(listed, s.db.Now(), all)
	if len(some) == 0 {
		return false, nil
	}
	t := make()
	q := segment.Query{}
	err = segment.Scan(s.segmentsOf(ctx, some), q, func(p *segment.Part) error { return p.Each(t.Columns(), t.Add) })
	if err == nil {
		err = s.db.Transact(ctx, func(tx *sql.Tx) error {
			if err := s.mark(ctx, tx, some); err != nil {
				return err
			}
			return t.Put(ctx, tx)
		})
	}
	if errors.Is(err, errGone) {
		return true, nil
	}
	return true, err
}

// mark notes that segments are tallied. The error is errGone if one is gone, or is tallied already.
func (s *Store) mark(ctx context.Context, tx *sql.Tx, some []listed) error {
	ids := make([]string, len(some))
	for i, x := range some {
		ids[i] = x.id
	}
	q := s.db.Statement("UPDATE segments SET tallied = 1")
	q.Among("id", ids)
	q.And("tallied", "=", sqldb.Flag(false))
	n, err := q.Exec(ctx, tx)
	if err == nil && n != int64(len(ids)) {
		err = errGone
	}
	return err
}

// forTally returns segments that are to be tallied, the oldest ones: enough rows, or what has waited for long enough,
// or any.
func forTally(all []listed, now time.Time, any bool) (some []listed) {
	rows := 0
	for _, x := range all {
		if x.tallied {
			continue
		}
		if rows+x.summary.Rows > tallyRows && rows > 0 || len(some) == atOnce {
			return some
		}
		some, rows = append(some, x), rows+x.summary.Rows
	}
	if rows >= tallyRows || any || len(some) > 0 && now.Sub(some[0].made()) > tallyAfter {
		return some
	}
	return nil
}
