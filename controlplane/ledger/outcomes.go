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
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const (
	// maxBuckets bounds a count.
	maxBuckets = 10_000
)

// Classes of outcomes, in the order of their columns.
const (
	classServed = iota
	classError
	classRejected
	classCancelled
	classes
)

// classOf returns the class of an exchange.
func classOf(refusedBy string, status int, outcome string) int {
	switch {
	case refusedBy != "":
		return classRejected
	case (adminapi.Exchange{Status: status, Outcome: outcome}).Failed():
		return classError
	case outcome == "rejected":
		return classRejected
	case outcome == "cancelled":
		return classCancelled
	}
	return classServed
}

// An outcomeTime identifies a row of the table outcomes.
type outcomeTime struct{ width, start int64 }

const classColumns = "served, errors, rejected, cancelled"

var intoOutcomes = sqldb.NewAdding("outcomes", "width, start", strings.Split(classColumns, ", "))

// addOutcomes counts the requests of exchanges that are new.
func (f *folder) addOutcomes(ctx context.Context, tx *sql.Tx, rows []row) error {
	counts := map[outcomeTime]*[classes]int64{}
	for i := range rows {
		for _, width := range [...]int64{minutes, hours} {
			at := outcomeTime{width, rows[i].at.Unix() / width * width}
			if counts[at] == nil {
				counts[at] = &[classes]int64{}
			}
			counts[at][classOf(rows[i].RefusedBy, int(rows[i].Status), rows[i].Outcome)] += rows[i].Requests
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

// A count is a question of how many exchanges there are.
type count struct {
	segment.Query
	width    int64 // of a bucket, in seconds
	bare     bool  // all exchanges of the time are counted
	from, to int64 // start and end as asked, before they are extended to buckets
}

// countOf reads the options of a count. It returns an error of OpenAI's if they are wrong.
func (l requestReader) countOf(o adminapi.ListOptions) (*count, error) {
	r := params.OfOptions(adminapi.ListOptions{Filters: map[string]string{"width": o.Filters["width"]}})
	c := &count{width: r.Number("width", hours, 1, 86400)}
	if r.Err == nil && !slices.Contains([]int64{minutes, 300, hours, 86400}, c.width) {
		r.Fail(openai.CodeInvalidValue.On("width",
			"Invalid value for 'width': it must be 60, 300, 3600 or 86400."))
	}
	filters := maps.Clone(o.Filters)
	delete(filters, "width")
	var err error
	if c.Query, err = queryOf(adminapi.ListOptions{Query: o.Query, Filters: filters}); err != nil || r.Err != nil {
		return nil, cmp.Or(r.Err, err)
	}
	now := l.db.Now()
	if c.To == 0 {
		c.To = now.Add(time.Second).UnixMicro()
	}
	if c.From == 0 {
		c.From = c.To - (24 * time.Hour).Microseconds()
	}
	c.bare = c.Where == nil
	if c.bare && c.width < hours && c.From < now.Add(-keepMinutes).UnixMicro() {
		c.width = hours
	}
	wide, ordered := c.width*1e6, c.To > c.From
	c.from, c.to = c.From, c.To
	c.From, c.To = c.From/wide*wide, (c.To+wide-1)/wide*wide
	if !ordered || (c.To-c.From)/wide > maxBuckets {
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
	s.And("start", ">=", c.From/1e6)
	s.And("start", "<", c.To/1e6)
	s.Add(" GROUP BY 1 ORDER BY 1")
	return s
}

// Outcomes counts the request log by time and class, as [adminapi.Client.Outcomes] says. Without filters it reads
// counts that are kept with the exchanges: by hour for as long as aggregates are, by minute for two days. With filters
// it counts exchanges.
func (l requestReader) Outcomes(ctx context.Context, o adminapi.ListOptions) (adminapi.Outcomes, error) {
	c, err := l.countOf(o)
	if err != nil {
		return adminapi.Outcomes{}, err
	}
	out := adminapi.Outcomes{Start: time.UnixMicro(c.From).UTC(), End: time.UnixMicro(c.To).UTC(), Width: c.width,
		Buckets: []adminapi.OutcomeBucket{}}
	if !c.bare {
		out.Buckets, err = l.counted(ctx, c)
		return out, doing("counting the request log", err)
	}
	if err := l.folded(ctx); err != nil {
		return out, err
	}
	found, err := sqldb.All(ctx, c.kept(l.db.Statement()), l.db.Read, func(b *adminapi.OutcomeBucket) []any {
		return []any{sqldb.Time{To: &b.Start, Unit: time.Second}, &b.Served, &b.Errors, &b.Rejected, &b.Cancelled}
	})
	out.Buckets = append(out.Buckets, found...)
	return out, doing("counting the request log", err)
}

// counted counts the requests of exchanges.
func (l requestReader) counted(ctx context.Context, c *count) ([]adminapi.OutcomeBucket, error) {
	counts := map[int64]*[classes]int64{}
	c.Columns = []segment.Column{segment.StartedAt, segment.RefusedBy, segment.Status, segment.Outcome,
		segment.Requests}
	err := l.each(ctx, c.Query, func() { clear(counts) }, func(r *segment.Row) {
		at := r.StartedAt / (c.width * 1e6) * c.width
		if counts[at] == nil {
			counts[at] = &[classes]int64{}
		}
		counts[at][classOf(r.RefusedBy, int(r.Status), r.Outcome)] += r.Requests
	})
	buckets := []adminapi.OutcomeBucket{}
	for _, at := range slices.Sorted(maps.Keys(counts)) {
		n := counts[at]
		buckets = append(buckets, adminapi.OutcomeBucket{Start: time.Unix(at, 0).UTC(), Served: n[classServed],
			Errors: n[classError], Rejected: n[classRejected], Cancelled: n[classCancelled]})
	}
	return buckets, err
}
