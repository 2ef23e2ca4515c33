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

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/usage"
)

// Periods of what is spent.
const (
	periodDay   = "d"
	periodMonth = "m"
)

// maxSpent bounds an answer about what was spent, which is to stay below gRPC's 4 MB.
const maxSpent = 30_000

// A period is of a subject: key/<id>, organization/<name> or project/<organization>/<project>.
type period struct {
	subject, name string
	start         int64
}

var intoSpent = newInsert("spent", "subject, period, start, cost, changed",
	"ON CONFLICT (subject, period, start) DO UPDATE SET cost = spent.cost + excluded.cost, changed = excluded.changed")

// addSpent adds to what the subjects of groups have spent. It takes the number of the change last, and holds it until
// the transaction ends: whoever sees a number sees all that are smaller.
func (l *Ledger) addSpent(ctx context.Context, tx *sql.Tx, keyed totals) error {
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
	err := l.statement("UPDATE ledger_state SET value = value + 1 WHERE name = 'changes' RETURNING value").
		each(ctx, tx, func(rows *sql.Rows) error { return rows.Scan(&change) })
	if err != nil {
		return err
	}
	_, err = l.put(ctx, tx, intoSpent, false, len(all), func(i int, v *values) {
		v.addText(all[i].subject)
		v.addText(all[i].name)
		v.addNumber(all[i].start)
		v.addNumber(total[all[i]])
		v.addNumber(change)
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

// Spent returns what has changed since a cursor of what was spent in the day and the month that now is in; with an
// empty one, or one of another database, everything. Where much has changed it is a part: what is asked next with its
// cursor gives the rest.
func (l *Ledger) Spent(ctx context.Context, cursor string) (*ledgerv1.SpentAnswer, error) {
	answer, err := l.spentSince(ctx, cursor)
	if err != nil {
		return nil, fmt.Errorf("reading what was spent: %w", err)
	}
	return answer, nil
}

func (l *Ledger) spentSince(ctx context.Context, cursor string) (*ledgerv1.SpentAnswer, error) {
	var epoch, changes int64
	err := l.statement("SELECT name, value FROM ledger_state").each(ctx, l.read, func(rows *sql.Rows) error {
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
	s := l.statement("SELECT changed FROM spent WHERE changed > ")
	s.add(s.arg(since), " ORDER BY changed LIMIT 1 OFFSET ", s.arg(maxSpent))
	if err := s.each(ctx, l.read, func(rows *sql.Rows) error { return rows.Scan(&until) }); err != nil {
		return nil, err
	}
	answer := &ledgerv1.SpentAnswer{Cursor: strconv.FormatInt(epoch, 36) + "." + strconv.FormatInt(until, 36)}
	if until <= since {
		return answer, nil
	}
	changed := func(s *statement) string {
		return "SELECT subject FROM spent WHERE changed > " + s.arg(since) + " AND changed <= " + s.arg(until)
	}
	answer.Spent, err = l.spentOf(ctx, changed)
	return answer, err
}

// spentOf returns what the subjects have spent that a part of a statement lists.
func (l *Ledger) spentOf(ctx context.Context, subjects func(*statement) string) ([]*ledgerv1.Spent, error) {
	now := l.now()
	at := timestamppb.New(now)
	s := l.statement("SELECT subject, period, cost FROM spent WHERE subject IN (")
	s.add(subjects(s), ") AND (period = 'd' AND start = ")
	s.add(s.arg(day(now).Unix()), " OR period = 'm' AND start = ", s.arg(month(now).Unix()), ") ORDER BY subject")
	var all []*ledgerv1.Spent
	err := s.each(ctx, l.read, func(rows *sql.Rows) error {
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

// Spending is what a subject has spent.
type Spending struct{ Day, Month usage.Nano }

// SpentBy returns what subjects have spent in the day and the month, UTC, that now is in. A subject is key/<id>,
// organization/<name> or project/<organization>/<project>; at most 1000 can be asked for at once.
func (l *Ledger) SpentBy(ctx context.Context, subjects ...string) (map[string]Spending, error) {
	if len(subjects) > 1000 {
		return nil, errors.New("reading what was spent: more than 1000 subjects")
	}
	if len(subjects) == 0 {
		return map[string]Spending{}, nil
	}
	all, err := l.spentOf(ctx, func(s *statement) string { return s.list(subjects) })
	if err != nil {
		return nil, fmt.Errorf("reading what was spent: %w", err)
	}
	found := make(map[string]Spending, len(all))
	for _, of := range all {
		found[of.GetSubject()] = Spending{usage.Nano(of.GetDayNanoUsd()), usage.Nano(of.GetMonthNanoUsd())}
	}
	return found, nil
}

// LastUsed returns when keys, by their ids, were last used. A key of which no exchange is kept is missing; at most
// 1000 can be asked for at once.
func (l *Ledger) LastUsed(ctx context.Context, keys ...string) (map[string]time.Time, error) {
	found := make(map[string]time.Time, len(keys))
	if len(keys) > 1000 {
		return nil, errors.New("reading when keys were used: more than 1000 keys")
	}
	for _, key := range keys {
		s := l.statement("SELECT at FROM exchanges")
		s.and("api_key", "=", key)
		s.condition(notRefused)
		s.add(" ORDER BY at DESC LIMIT 1")
		err := s.each(ctx, l.read, func(rows *sql.Rows) error {
			var at int64
			err := rows.Scan(&at)
			found[key] = time.UnixMicro(at).UTC()
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading when keys were used: %w", err)
		}
	}
	return found, nil
}
