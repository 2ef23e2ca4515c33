package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/cachesums"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// addSums adds exchanges to all sums.
func (f *folder) addSums(ctx context.Context, tx *sql.Tx, rows []row) error {
	total := fold(rows)
	if err := f.addAggregates(ctx, tx, total); err != nil {
		return err
	}
	if err := f.addNamed(ctx, tx, total.named); err != nil {
		return err
	}
	if err := f.addHealth(ctx, tx, rows); err != nil {
		return err
	}
	if err := f.addOutcomes(ctx, tx, rows); err != nil {
		return err
	}
	if err := f.addCached(ctx, tx, rows); err != nil {
		return err
	}
	return f.addSpent(ctx, tx, total.keyed)
}

// addCached adds what response caches did.
func (f *folder) addCached(ctx context.Context, tx *sql.Tx, rows []row) error {
	total := cachesums.Totals{}
	for i := range rows {
		if r := &rows[i]; r.GetDetails().GetCache() != "" && r.RefusedBy == "" {
			total.Add(cachesums.Use{At: r.at, Organization: r.Organization, Project: r.Project, Model: r.Model,
				Text: r.GetDetails().GetCache(), Requests: r.Requests, Took: r.duration, Finished: r.Outcome == "finished"})
		}
	}
	return total.Put(ctx, f.db, tx)
}

var (
	intoAggregates = sqldb.NewAdding("aggregates", groupColumns, columns())
	intoMinutes    = sqldb.NewAdding("minutes", "start, model, provider", columns())
	intoSums       = sqldb.NewAdding("sums", "field, width, start, name", strings.Split(namedColumns, ", "))
)

// addAggregates adds to the sums of all levels and to those by minute, in an order that is the same for all
// transactions, so that none waits for one that waits for it.
func (f *folder) addAggregates(ctx context.Context, tx *sql.Tx, of folding) error {
	total := totals{}
	for g, m := range of.keyed {
		for level := range levels {
			total.add(g.at(level), m)
		}
	}
	all := slices.SortedFunc(maps.Keys(total), compareGroups)
	_, err := f.db.Put(ctx, tx, intoAggregates, false, len(all), func(i int, v *sqldb.Values) {
		g := &all[i]
		v.Add(int64(g.level), g.start, g.organization, g.project, g.key, g.model, g.upstream, g.provider, g.operation,
			g.batch)
		v.AddAll(total[*g][:])
	})
	if err != nil {
		return err
	}
	all = slices.SortedFunc(maps.Keys(of.minutes), compareGroups)
	_, err = f.db.Put(ctx, tx, intoMinutes, false, len(all), func(i int, v *sqldb.Values) {
		v.Add(all[i].start, all[i].model, all[i].provider)
		v.AddAll(of.minutes[all[i]][:])
	})
	return err
}

// A named identifies a row of sums.
type named struct {
	field, width, start int64
	name                string
}

// namedColumns are the measures of sums.
const namedColumns = "requests, errors, input_tokens, cached_tokens, output_tokens, cost"

var namedMeasures = [...]int{requests, failed, used + int(usage.InputTokens), used + int(usage.CachedTokens),
	used + int(usage.OutputTokens), cost}

type namedSums map[named]*[len(namedMeasures)]int64

// add adds the measures of an exchange to the hour and the day in which it began.
func (t namedSums) add(field int64, name string, at time.Time, m *sums) {
	for _, width := range [...]int64{3600, 86400} {
		key := named{field, width, at.Unix() / width * width, name}
		if t[key] == nil {
			t[key] = &[len(namedMeasures)]int64{}
		}
		for i, k := range namedMeasures {
			t[key][i] += m[k]
		}
	}
}

// addNamed adds to the sums of keys and users, in an order that is the same for all transactions.
func (f *folder) addNamed(ctx context.Context, tx *sql.Tx, total namedSums) error {
	all := slices.SortedFunc(maps.Keys(total), func(a, b named) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start),
			strings.Compare(a.name, b.name))
	})
	_, err := f.db.Put(ctx, tx, intoSums, false, len(all), func(i int, v *sqldb.Values) {
		v.Add(all[i].field, all[i].width, all[i].start, all[i].name)
		v.AddAll(total[all[i]][:])
	})
	return err
}

// Fields with many values, which have sums of their own. A page that compares keys or users reads a row for each of
// them and each hour or day, instead of one for each of their models and providers, too.
const (
	sumsOfKeys  = 1
	sumsOfUsers = 2
	// sumsOfRefused are of keys, too, and count refused requests alone: no other sum has them.
	sumsOfRefused = 3
)
