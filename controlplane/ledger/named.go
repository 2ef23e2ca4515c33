package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelgate/modelgate/internal/usage"
)

// Fields of the sums of what there is much of. A page that compares keys or users reads a row for each of them and
// each hour or day, instead of one for each of their models and providers, too.
const (
	sumsOfKeys  = 1
	sumsOfUsers = 2
)

// A named is what a row of sums is of.
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

var intoSums = func() *insert {
	var updates []string
	for c := range strings.SplitSeq(namedColumns, ", ") {
		updates = append(updates, c+" = sums."+c+" + excluded."+c)
	}
	return newInsert("sums", "field, width, start, name, "+namedColumns,
		"ON CONFLICT (field, width, start, name) DO UPDATE SET "+strings.Join(updates, ", "))
}()

// addNamed adds to the sums of keys and users, in an order that is the same for all transactions.
func (l *Ledger) addNamed(ctx context.Context, tx *sql.Tx, total namedSums) error {
	all := slices.SortedFunc(maps.Keys(total), func(a, b named) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start),
			strings.Compare(a.name, b.name))
	})
	if len(all) == 0 {
		return nil
	}
	_, err := l.put(ctx, tx, intoSums, false, len(all), func(i int, v *values) {
		v.addNumber(all[i].field)
		v.addNumber(all[i].width)
		v.addNumber(all[i].start)
		v.addText(all[i].name)
		for _, n := range total[all[i]] {
			v.addNumber(n)
		}
	})
	return err
}

// noteSums notes since when the sums of keys and users, and those by minute, are whole. In a ledger that has recorded
// before they existed that is the day after tomorrow, because control planes of the version before may go on for a
// while. Until then, and for older times, the same is read from elsewhere, which takes longer.
func (l *Ledger) noteSums(ctx context.Context, db database) error {
	s := l.statement("INSERT INTO sums_since (id, at) SELECT 1, CASE WHEN EXISTS (SELECT 1 FROM exchanges) ",
		"OR EXISTS (SELECT 1 FROM aggregates) THEN CAST(")
	s.add(s.arg(day(l.now()).AddDate(0, 0, 2).Unix()), " AS BIGINT) ELSE 0 END WHERE 1 = 1 ON CONFLICT (id) DO NOTHING")
	_, err := s.exec(ctx, db)
	return err
}

// sumsSince returns what noteSums has noted.
func (l *Ledger) sumsSince(ctx context.Context) (time.Time, error) {
	var at int64
	err := l.statement("SELECT at FROM sums_since").each(ctx, l.read, func(rows *sql.Rows) error {
		return rows.Scan(&at)
	})
	return time.Unix(at, 0).UTC(), err
}
