package segstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
)

const (
	// fullRows is how many rows a segment has that is not merged any more, and mostRows how many one has at most: a row
	// group. A segment is read from the database as a whole, so that a larger one would only be read for less of it.
	fullRows = segment.GroupRows / 2
	mostRows = segment.GroupRows
	// fanIn is how many segments of about one size are merged.
	fanIn = 8

	dayMicros = int64(24 * time.Hour / time.Microsecond)
)

// Merge merges small segments of one day and about one size, where there are enough of them, and returns how many are
// gone by that. A row is rewritten as often as its segment grows to the next size: a few times.
func (s *Store) Merge(ctx context.Context) (gone int, err error) {
	for {
		all, err := s.list(ctx)
		if err != nil {
			return gone, err
		}
		some := mergeable(all)
		if some == nil {
			return gone, nil
		}
		done, err := s.merge(ctx, some)
		if err != nil {
			return gone, err
		}
		if done {
			gone += len(some) - 1
		}
	}
}

// mergeable returns segments that are to become one, or nil. Ids are in the order in which they were made.
func mergeable(all []listed) []listed {
	type kind struct {
		day, size int64
		tallied   bool
	}
	waiting := map[kind][]listed{}
	for _, x := range all {
		if x.blob != "" || x.summary.Rows >= fullRows {
			continue
		}
		k := kind{x.summary.From / dayMicros, int64(math.Log2(float64(max(x.summary.Rows, 64))) / math.Log2(fanIn)),
			x.tallied}
		waiting[k] = append(waiting[k], x)
		rows := 0
		for _, x := range waiting[k] {
			rows += x.summary.Rows
		}
		if (len(waiting[k]) == fanIn || rows >= fullRows) && rows <= mostRows {
			return waiting[k]
		}
	}
	return nil
}

// merge makes one segment of several. It returns false, and does nothing, if one of them is gone.
func (s *Store) merge(ctx context.Context, some []listed) (bool, error) {
	rows, err := s.rowsOf(ctx, some)
	if errors.Is(err, errGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.swap(ctx, some, rewritten{rows: rows})
}

// rowsOf returns all rows of segments.
func (s *Store) rowsOf(ctx context.Context, some []listed) (rows []segment.Row, err error) {
	for _, x := range some {
		more, err := s.rows(ctx, x)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// rows returns all rows of a segment.
func (s *Store) rows(ctx context.Context, x listed) (rows []segment.Row, err error) {
	f, err := s.open(ctx, x)
	if err != nil {
		return nil, err
	}
	for g := range f.Groups() {
		more, err := f.Rows(g)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// Rewrite calls change with every row that a query wants, and returns how many there were. A row for which it returns
// false is deleted. It may be called again for a row whose segment others change meanwhile.
func (s *Store) Rewrite(ctx context.Context, q segment.Query, change func(*segment.Row) (keep bool)) (n int64,
	err error) {
	for {
		all, err := s.list(ctx)
		if err != nil {
			return n, err
		}
		again := false
		for _, x := range all {
			changed, done, err := s.rewrite(ctx, x, q, change)
			if err != nil {
				return n, err
			}
			n, again = n+changed, again || !done
		}
		if !again {
			return n, nil
		}
	}
}

// rewrite rewrites one segment. It returns false, and does nothing, if that is gone.
func (s *Store) rewrite(ctx context.Context, x listed, q segment.Query, change func(*segment.Row) bool) (n int64,
	done bool, err error) {
	wanted := map[int]bool{} // indexes of rows
	one := []segment.Segment{{Summary: x.summary, Open: func() (*segment.File, error) { return s.open(ctx, x) }}}
	err = segment.Scan(one, q, func(p *segment.Part) error {
		for _, row := range p.Rows {
			wanted[p.First()+row] = true
		}
		return nil
	})
	if errors.Is(err, errGone) {
		return 0, false, nil
	}
	if err != nil || len(wanted) == 0 {
		return 0, true, err
	}
	rows, err := s.rows(ctx, x)
	if errors.Is(err, errGone) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	kept := rows[:0]
	for i := range rows {
		if !wanted[i] || change(&rows[i]) {
			kept = append(kept, rows[i])
		}
	}
	if done, err = s.swap(ctx, []listed{x}, rewritten{kept, x.blob != ""}); !done {
		return 0, false, err
	}
	return int64(len(wanted)), true, nil
}

// Drop deletes the segments whose rows all began before a time, in microseconds, and returns how many rows they had.
func (s *Store) Drop(ctx context.Context, before int64) (n int64, err error) {
	all, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	for _, x := range all {
		if x.summary.To >= before {
			continue
		}
		done, err := s.swap(ctx, []listed{x})
		if err != nil {
			return n, err
		}
		if done {
			n += int64(x.summary.Rows)
		}
	}
	return n, nil
}
