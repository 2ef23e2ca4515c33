package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const (
	// maxBuckets bounds a count.
	maxBuckets = 10_000
	// Conditions of classes, in SQL. They say what classOf says in Go. What is left is cancelled or rejected.
	isServed    = "(refused_by = '' AND NOT " + isFailed + " AND outcome NOT IN ('rejected', 'cancelled'))"
	isError     = "(refused_by = '' AND " + isFailed + ")"
	isCancelled = "(refused_by = '' AND outcome = 'cancelled' AND NOT " + isFailed + ")"
)

// Classes of outcomes, in the order of their columns.
const (
	classServed = iota
	classError
	classRejected
	classCancelled
	classes
)

// classOf returns the class of a row.
func classOf(r *row) int {
	switch {
	case r.RefusedBy != "":
		return classRejected
	case (adminapi.Exchange{Status: int(r.Status), Outcome: r.Outcome}).Failed():
		return classError
	case r.Outcome == "rejected":
		return classRejected
	case r.Outcome == "cancelled":
		return classCancelled
	}
	return classServed
}

// An outcomeTime identifies a row of the table outcomes.
type outcomeTime struct{ width, start int64 }

const classColumns = "served, errors, rejected, cancelled"

var intoOutcomes = adding("outcomes", "width, start", strings.Split(classColumns, ", "))

// addOutcomes counts exchanges that are new.
func (f *folder) addOutcomes(ctx context.Context, tx *sql.Tx, rows []row) error {
	counts := map[outcomeTime]*[classes]int64{}
	for i := range rows {
		for _, width := range [...]int64{minutes, hours} {
			at := outcomeTime{width, rows[i].at.Unix() / width * width}
			if counts[at] == nil {
				counts[at] = &[classes]int64{}
			}
			counts[at][classOf(&rows[i])]++
		}
	}
	sorted := slices.SortedFunc(maps.Keys(counts), func(a, b outcomeTime) int {
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start))
	})
	_, err := f.db.Put(ctx, tx, intoOutcomes, false, len(sorted), func(i int, v *sqldb.Values) {
		v.Add(sorted[i].width, sorted[i].start)
		v.AddAll(counts[sorted[i]][:])
	})
	return err
}

// classSums are the begin of a bucket, in seconds, and the counts of classes.
func classSums(width int64) string {
	count := func(condition string) string { return ", " + sum("CASE WHEN "+condition+" THEN 1 ELSE 0 END") }
	return fmt.Sprintf("at / %d * %d", width*1e6, width) + count(isServed) + count(isError) +
		count("NOT "+isServed+" AND NOT "+isError+" AND NOT "+isCancelled) + count(isCancelled)
}

// A count is a question of how many exchanges there are.
type count struct {
	*search
	width    int64 // of a bucket, in seconds
	bare     bool  // all exchanges of the time are counted
	from, to int64 // start and end as asked, before they are extended to buckets
}

// countOf reads the options of a count, which follows the index of first if that is given. It returns an error of
// OpenAI's if they are wrong.
func (l requestReader) countOf(o adminapi.ListOptions, first func(*sqldb.Statement)) (*count, error) {
	r := newReader(adminapi.ListOptions{Filters: map[string]string{"width": o.Filters["width"]}})
	c := &count{width: r.number("width", hours, 1, 86400)}
	if r.err == nil && !slices.Contains([]int64{minutes, 300, hours, 86400}, c.width) {
		r.fail(openai.CodeInvalidValue.On("width",
			"Invalid value for 'width': it must be 60, 300, 3600 or 86400."))
	}
	filters := maps.Clone(o.Filters)
	delete(filters, "width")
	var err error
	if c.search, err = searchOf(adminapi.ListOptions{Query: o.Query, Filters: filters}, l.db.Postgres,
		first); err != nil ||
		r.err != nil {
		return nil, cmp.Or(r.err, err)
	}
	now := l.db.Now()
	if c.end == 0 {
		c.end = now.Add(time.Second).UnixMicro()
	}
	if c.start == 0 {
		c.start = c.end - (24 * time.Hour).Microseconds()
	}
	c.bare = c.index == nil && len(c.rest) == 0
	if c.bare && c.width < hours && c.start < now.Add(-keepMinutes).UnixMicro() {
		c.width = hours
	}
	wide, ordered := c.width*1e6, c.end > c.start
	c.from, c.to = c.start, c.end
	c.start, c.end = c.start/wide*wide, (c.end+wide-1)/wide*wide
	if !ordered || (c.end-c.start)/wide > maxBuckets {
		return nil, openai.CodeInvalidValue.On("end",
			"Invalid value for 'end': it must be after 'start', and at most %d buckets.", maxBuckets)
	}
	return c, nil
}

// kept returns the statement that reads the counts that are kept with the exchanges.
func (c *count) kept(s *sqldb.Statement) *sqldb.Statement {
	s.Add(fmt.Sprintf("SELECT start / %d * %d, ", c.width, c.width), sum("served"), ", ", sum("errors"), ", ",
		sum("rejected"), ", ", sum("cancelled"), " FROM outcomes")
	stored := int64(minutes)
	if c.width >= hours {
		stored = hours
	}
	s.And("width", "=", stored)
	s.And("start", ">=", c.start/1e6)
	s.And("start", "<", c.end/1e6)
	s.Add(" GROUP BY 1 ORDER BY 1")
	return s
}

// Outcomes counts the request log by time and class, as [adminapi.Client.Outcomes] says. Without filters it reads
// counts that are kept with the exchanges: by hour for as long as aggregates are, by minute for two days. With filters
// it counts the latest exchanges, as many as a search looks at.
func (l requestReader) Outcomes(ctx context.Context, o adminapi.ListOptions) (adminapi.Outcomes, error) {
	c, err := l.countOf(o, nil)
	if err != nil {
		return adminapi.Outcomes{}, err
	}
	out := adminapi.Outcomes{Start: time.UnixMicro(c.start).UTC(), End: time.UnixMicro(c.end).UTC(), Width: c.width,
		Buckets: []adminapi.OutcomeBucket{}}
	s := l.db.Statement()
	if c.bare {
		if err := l.folded(ctx); err != nil {
			return out, err
		}
		c.kept(s)
	} else {
		bound, err := l.bound(ctx, c.search)
		if err != nil {
			return out, fmt.Errorf("counting the request log: %w", err)
		}
		if bound > 0 {
			from := time.UnixMicro(bound).UTC()
			out.CountedFrom = &from
		}
		s.Add("SELECT ", classSums(c.width), " FROM exchanges")
		c.all(s, bound)
		s.Add(" GROUP BY 1 ORDER BY 1")
	}
	found, err := sqldb.All(ctx, s, l.db.Read, func(b *adminapi.OutcomeBucket) []any {
		return []any{sqldb.Time{To: &b.Start, Unit: time.Second}, &b.Served, &b.Errors, &b.Rejected, &b.Cancelled}
	})
	out.Buckets = append(out.Buckets, found...)
	return out, doing("counting the request log", err)
}
