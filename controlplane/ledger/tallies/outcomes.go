package tallies

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// A place is a bucket of a width, in seconds.
type place struct{ width, start int64 }

// Counts are how many exchanges there are, by time and class. Refused ones count as rejected.
type Counts map[place]*[Refused]int64

// Add counts exchanges of a class that began at a time, in seconds, in a bucket of a width.
func (c Counts) Add(width, at int64, class int, n int64) {
	p := place{width, at / width * width}
	if c[p] == nil {
		c[p] = &[Refused]int64{}
	}
	if class == Refused {
		class = Rejected
	}
	c[p][class] += n
}

func (c Counts) sorted() []place {
	return slices.SortedFunc(maps.Keys(c), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start))
	})
}

// Buckets returns the counts by time.
func (c Counts) Buckets() []adminapi.OutcomeBucket {
	buckets := []adminapi.OutcomeBucket{}
	for _, p := range c.sorted() {
		buckets = append(buckets, adminapi.OutcomeBucket{Start: time.Unix(p.start, 0).UTC(), Served: c[p][Served],
			Errors: c[p][Failed], Rejected: c[p][Rejected], Cancelled: c[p][Cancelled]})
	}
	return buckets
}

const classColumns = "served, errors, rejected, cancelled"

var intoOutcomes = sqldb.NewAdding("outcomes", "width, start", strings.Split(classColumns, ", "))

// InsertOutcomes is the statement by which Put adds, so that it can be prepared.
func InsertOutcomes() *sqldb.Insert { return intoOutcomes }

// Put adds to the counts that are kept of all exchanges, in an order that is the same for all transactions.
func (c Counts) Put(ctx context.Context, db *sqldb.DB, tx *sql.Tx) error {
	all := c.sorted()
	_, err := db.Put(ctx, tx, intoOutcomes, false, len(all), func(i int, v *sqldb.Values) {
		v.Add(all[i].width, all[i].start)
		v.AddAll(c[all[i]][:])
	})
	return err
}

// Outcomes returns the counts of all exchanges from a time until another, in seconds, that are kept by minute or by
// hour.
func Outcomes(ctx context.Context, db *sqldb.DB, from, to, width int64) ([]adminapi.OutcomeBucket, error) {
	s := db.Statement(fmt.Sprintf("SELECT start / %d * %d", width, width))
	for name := range strings.SplitSeq(classColumns, ", ") {
		s.Add(", ", sqldb.Sum(name))
	}
	s.Add(" FROM outcomes")
	stored := int64(60)
	if width >= hour {
		stored = hour
	}
	s.And("width", "=", stored)
	s.And("start", ">=", from)
	s.And("start", "<", to)
	s.Add(" GROUP BY 1 ORDER BY 1")
	found, err := sqldb.All(ctx, s, db.Read, func(b *adminapi.OutcomeBucket) []any {
		return []any{sqldb.Time{To: &b.Start, Unit: time.Second}, &b.Served, &b.Errors, &b.Rejected, &b.Cancelled}
	})
	return append([]adminapi.OutcomeBucket{}, found...), err
}

// OfFilters returns the query that counts what the filters of the request log select, and whether it does so for all
// of them. Those that the tallies do not know it leaves out.
func OfFilters(filters map[string]string) (q *Query, whole bool) {
	q, whole = &Query{Where: map[string][]string{}, Status: Any, Class: Any}, true
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		value := filters[name]
		if name != "keys" { // which the gateway has found itself
			value = sqldb.Text(value)
		}
		if value != "" && !q.take(name, value) {
			whole = false
		}
	}
	if q.Kind == OfUsers && (q.Where["organization"] != nil || q.Where["project"] != nil) {
		delete(q.Where, "organization")
		delete(q.Where, "project")
		whole = false
	}
	return q, whole
}

// take adds a filter to the query, if the tallies know it.
func (q *Query) take(name, value string) bool {
	switch name {
	case "start", "end", "width":
	case "user", "key", "keys":
		if q.Kind != OfTenants {
			return false
		}
		if q.Kind, q.Names = OfKeys, []string{value}; name == "user" {
			q.Kind = OfUsers
		} else if name == "keys" {
			q.Names = strings.Split(value, ",")
		}
	case "organization", "project", "model", "provider":
		q.Where[name] = []string{value}
	case "status":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		q.Status = n
	case "outcome":
		class, known := map[string]int64{adminapi.OutcomeServed: Served, adminapi.OutcomeError: Failed}[value]
		if !known {
			return false
		}
		q.Class = class
	default:
		return false
	}
	return true
}
