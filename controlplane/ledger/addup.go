package ledger

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
)

// intoTotals adds sums to those of a table.
func intoTotals(table, key string) *insert {
	names := columns()
	updates := make([]string, len(names))
	for i, name := range names {
		updates[i] = name + " = " + table + "." + name + " + excluded." + name
	}
	return newInsert(table, key+", "+strings.Join(names, ", "),
		"ON CONFLICT ("+key+") DO UPDATE SET "+strings.Join(updates, ", "))
}

var (
	intoAggregates = intoTotals("aggregates", groupColumns)
	intoMinutes    = intoTotals("minutes", "start, model, provider")
)

// addAggregates adds to the sums of all levels and to those by minute, in an order that is the same for all
// transactions, so that none waits for one that waits for it.
func (l *Ledger) addAggregates(ctx context.Context, tx *sql.Tx, f folding) error {
	total := totals{}
	for g, m := range f.keyed {
		for level := range levels {
			total.add(g.at(level), m)
		}
	}
	all := slices.SortedFunc(maps.Keys(total), compareGroups)
	_, err := l.put(ctx, tx, intoAggregates, false, len(all), func(i int, v *values) {
		g := &all[i]
		v.addNumber(int64(g.level))
		v.addNumber(g.start)
		for _, s := range [...]string{g.organization, g.project, g.key, g.model, g.upstream, g.provider, g.operation} {
			v.addText(s)
		}
		v.addNumber(g.batch)
		for _, n := range total[*g] {
			v.addNumber(n)
		}
	})
	if err != nil || len(f.minutes) == 0 {
		return err
	}
	all = slices.SortedFunc(maps.Keys(f.minutes), compareGroups)
	_, err = l.put(ctx, tx, intoMinutes, false, len(all), func(i int, v *values) {
		v.addNumber(all[i].start)
		v.addText(all[i].model)
		v.addText(all[i].provider)
		for _, n := range f.minutes[all[i]] {
			v.addNumber(n)
		}
	})
	return err
}
