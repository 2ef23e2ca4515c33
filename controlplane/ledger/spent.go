package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// Periods of spending.
const (
	periodDay   = "d"
	periodMonth = "m"
)

// maxSpent bounds an answer about what was spent, which is to stay below gRPC's 4 MB.
const maxSpent = 30_000

// A period is the spending period of a subject: key/<id>, organization/<name> or project/<organization>/<project>.
type period struct {
	subject, name string
	start         int64
}

var intoSpent = sqldb.NewInsert("spent", "subject, period, start, cost, changed",
	"ON CONFLICT (subject, period, start) DO UPDATE SET cost = spent.cost + excluded.cost, changed = excluded.changed")

// addSpent adds to the spending of the groups' subjects. It takes the number of the change last, and holds it until
// the transaction ends: whoever sees a number sees all smaller ones.
func (f *folder) addSpent(ctx context.Context, tx *sql.Tx, keyed totals) error {
	total := map[period]int64{}
	for g, m := range keyed {
		if m[cost] == 0 {
			continue
		}
		at := time.Unix(g.start, 0)
		for _, subject := range g.subjects() {
			total[period{subject, periodDay, day(at).Unix()}] += m[cost]
			total[period{subject, periodMonth, month(at).Unix()}] += m[cost]
		}
	}
	if len(total) == 0 {
		return nil
	}
	all := slices.SortedFunc(maps.Keys(total), func(a, b period) int {
		return cmp.Or(strings.Compare(a.subject, b.subject), strings.Compare(a.name, b.name), cmp.Compare(a.start, b.start))
	})
	var change int64
	err := f.db.Statement("UPDATE ledger_state SET value = value + 1 WHERE name = 'changes' RETURNING value").
		Each(ctx, tx, func(rows *sql.Rows) error { return rows.Scan(&change) })
	if err != nil {
		return err
	}
	_, err = f.db.Put(ctx, tx, intoSpent, false, len(all), func(i int, v *sqldb.Values) {
		v.Add(all[i].subject, all[i].name, all[i].start, total[all[i]], change)
	})
	return err
}

func (g *group) subjects() []string {
	var all []string
	if g.key != "" {
		all = append(all, "key/"+g.key)
	}
	if g.organization != "" {
		all = append(all, "organization/"+g.organization)
	}
	if g.project != "" {
		all = append(all, "project/"+g.organization+"/"+g.project)
	}
	return all
}

// Spent returns the changes since a cursor of the spending in now's day and month. With an empty cursor, or one of
// another conn, it returns everything. If there are many changes, the answer is a part: the next call with its
// cursor gives the rest.
func (l usageReader) Spent(ctx context.Context, cursor string) (*ledgerv1.SpentAnswer, error) {
	answer, err := l.spentSince(ctx, cursor)
	return answer, doing("reading what was spent", err)
}

func (l usageReader) spentSince(ctx context.Context, cursor string) (*ledgerv1.SpentAnswer, error) {
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	var epoch, changes int64
	err := l.db.Statement("SELECT name, value FROM ledger_state").Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var name string
		var value int64
		err := rows.Scan(&name, &value)
		if name == "epoch" {
			epoch = value
		} else {
			changes = value
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	since := int64(0)
	if of, n, ok := strings.Cut(cursor, "."); ok && of == strconv.FormatInt(epoch, 36) {
		since, _ = strconv.ParseInt(n, 36, 64) // what is none was not given by us, and means everything
	}
	until := changes
	s := l.db.Statement("SELECT changed FROM spent WHERE changed > ")
	s.Add(s.Arg(since), " ORDER BY changed LIMIT 1 OFFSET ", s.Arg(maxSpent))
	if err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&until) }); err != nil {
		return nil, err
	}
	answer := &ledgerv1.SpentAnswer{Cursor: strconv.FormatInt(epoch, 36) + "." + strconv.FormatInt(until, 36)}
	if until <= since {
		return answer, nil
	}
	changed := func(s *sqldb.Statement) string {
		return "SELECT subject FROM spent WHERE changed > " + s.Arg(since) + " AND changed <= " + s.Arg(until)
	}
	answer.Spent, err = l.spentOf(ctx, changed)
	return answer, err
}

// spentOf returns what the subjects have spent that a part of a statement lists.
func (l usageReader) spentOf(ctx context.Context, subjects func(*sqldb.Statement) string) ([]*ledgerv1.Spent, error) {
	now := l.db.Now()
	at := timestamppb.New(now)
	s := l.db.Statement("SELECT subject, period, cost FROM spent WHERE subject IN (")
	s.Add(subjects(s), ") AND (period = 'd' AND start = ")
	s.Add(s.Arg(day(now).Unix()), " OR period = 'm' AND start = ", s.Arg(month(now).Unix()), ") ORDER BY subject")
	var all []*ledgerv1.Spent
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var subject, name string
		var cost int64
		if err := rows.Scan(&subject, &name, &cost); err != nil {
			return err
		}
		if len(all) == 0 || all[len(all)-1].Subject != subject {
			all = append(all, &ledgerv1.Spent{Subject: subject, At: at})
		}
		if name == periodDay {
			all[len(all)-1].DayNanoUsd = cost
		} else {
			all[len(all)-1].MonthNanoUsd = cost
		}
		return nil
	})
	return all, err
}

// Spending is the amount that a subject has spent.
type Spending struct{ Day, Month usage.Nano }

// SpentBy returns what subjects have spent in the day and the month, UTC, that now is in. A subject is key/<id>,
// organization/<name> or project/<organization>/<project>; at most 1000 can be asked for at once.
func (l usageReader) SpentBy(ctx context.Context, subjects ...string) (map[string]Spending, error) {
	if len(subjects) > 1000 {
		return nil, errors.New("reading what was spent: more than 1000 subjects")
	}
	if len(subjects) == 0 {
		return map[string]Spending{}, nil
	}
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	all, err := l.spentOf(ctx, func(s *sqldb.Statement) string { return s.List(subjects) })
	if err != nil {
		return nil, fmt.Errorf("reading what was spent: %w", err)
	}
	found := make(map[string]Spending, len(all))
	for _, of := range all {
		found[of.GetSubject()] = Spending{usage.Nano(of.GetDayNanoUsd()), usage.Nano(of.GetMonthNanoUsd())}
	}
	return found, nil
}

// LastUsed returns when keys, by their ids, were last used, also if the request was refused. A key without kept
// exchanges is missing. One call takes at most 1000.
func (l usageReader) LastUsed(ctx context.Context, keys ...string) (map[string]time.Time, error) {
	found := make(map[string]time.Time, len(keys))
	if len(keys) > 1000 {
		return nil, errors.New("reading when keys were used: more than 1000 keys")
	}
	err := l.folded(ctx)
	if err != nil || len(keys) == 0 {
		return found, doing("reading when keys were used", err)
	}
	last, err := l.tallies().LastOfKeys(ctx, keys)
	for key, at := range last {
		found[key] = time.UnixMicro(at).UTC()
	}
	return found, doing("reading when keys were used", err)
}

// BatchCost returns what the answered requests of a batch have cost: of a key, and from its creation on, as the index
// has them. Their ids begin with the batch's.
func (l usageReader) BatchCost(ctx context.Context, batch, key string, created time.Time) (adminapi.BatchCost, error) {
	var cost adminapi.BatchCost
	var sum usage.Nano
	q := segment.Query{From: created.UnixMicro(), Where: segment.All(segment.Equal(segment.Key, text(key)),
		ofBatch(text(batch))),
		Columns: []segment.Column{segment.Requests, segment.Priced, segment.Cost}}
	err := l.each(ctx, q, func() { cost, sum = adminapi.BatchCost{}, 0 }, func(r *segment.Row) {
		cost.Requests += r.Requests
		if !r.Priced {
			cost.Unpriced += r.Requests
		}
		sum += usage.Nano(r.Cost)
	})
	if err != nil {
		return cost, fmt.Errorf("reading the cost of a batch: %w", err)
	}
	cost.USD = sum.String()
	return cost, nil
}
