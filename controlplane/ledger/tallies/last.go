package tallies

import (
	"context"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
)

// lastDays is how many days are looked at in the tallies for the last exchange of a key.
const lastDays = 32

// LastOfKeys returns when the last exchange of each key began, in microseconds. One without exchanges is missing. The
// tallies say on which day to look, and of most keys that were never used that there is none.
func (s Store) LastOfKeys(ctx context.Context, keys []string) (map[string]int64, error) {
	today := s.DB.Now().Add(day*time.Second).Unix() / day * day // clocks may be ahead
	q := &Query{Kind: OfKeys, Names: keys, From: time.Unix(today-lastDays*day, 0), To: time.Unix(today+day, 0),
		Width: day * time.Second, Status: Any, Class: Any}
	last, since := map[string]int64{}, map[string]int64{}
	columns := []segment.Column{segment.StartedAt, segment.Key}
	rest := segment.Query{Where: segment.Equal(segment.Key, keys...), Columns: columns}
	err := s.Read(ctx, q, rest, func() { clear(last); clear(since) }, func(r *Row) {
		since[r.Name] = max(since[r.Name], r.Start*1e6)
	}, func(r *segment.Row) {
		key := strings.Clone(r.Key) // the row's may be a part of a larger one
		last[key] = max(last[key], r.StartedAt)
	})
	if err != nil {
		return nil, err
	}
	var first, then []segment.Query
	for _, key := range keys {
		x := segment.Query{From: since[key], Where: segment.Equal(segment.Key, key), Limit: 1, Columns: columns}
		switch {
		case since[key] > 0 && last[key] < since[key]+day*1e6:
			first = append(first, x)
		case since[key] == 0 && last[key] < q.From.UnixMicro():
			x.To = q.From.UnixMicro()
			then = append(then, x)
		}
	}
	if err := s.addLast(ctx, first, last); err != nil {
		return nil, err
	}
	for _, key := range keys { // what was tallied on its day is deleted
		if since[key] > 0 && last[key] == 0 {
			then = append(then, segment.Query{To: since[key], Where: segment.Equal(segment.Key, key), Limit: 1,
				Columns: columns})
		}
	}
	return last, s.addLast(ctx, then, last)
}

// addLast adds what searches of one key each find.
func (s Store) addLast(ctx context.Context, searches []segment.Query, last map[string]int64) error {
	found, err := s.Segments.SearchEach(ctx, searches)
	for _, rows := range found {
		for i := range rows {
			key := strings.Clone(rows[i].Key)
			last[key] = max(last[key], rows[i].StartedAt)
		}
	}
	return err
}
