package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
)

const (
	// maxBuckets bounds a count.
	maxBuckets = 10_000
)

// addOutcomes counts the requests of exchanges that are new.
func (f *folder) addOutcomes(ctx context.Context, tx *sql.Tx, rows []row) error {
	counts := tallies.Counts{}
	for i := range rows {
		r := &rows[i]
		class := tallies.ClassOf(r.RefusedBy, int(r.Status), r.Outcome)
		counts.Add(minutes, r.at.Unix(), class, r.Requests)
		counts.Add(hours, r.at.Unix(), class, r.Requests)
	}
	return counts.Put(ctx, f.db, tx)
}

// A count is a question of how many exchanges there are.
type count struct {
	segment.Query
	width    int64          // of a bucket, in seconds
	bare     bool           // all exchanges of the time are counted
	tallied  *tallies.Query // answers it; nil: none does
	from, to int64          // start and end as asked, before they are extended to buckets
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
	if tallied, whole := tallies.OfFilters(filters); whole && o.Query == "" {
		tallied.From, tallied.To = time.UnixMicro(c.From), time.UnixMicro(c.To)
		tallied.Width, c.tallied = time.Duration(c.width)*time.Second, tallied
	}
	return c, nil
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
	out.Buckets, err = tallies.Outcomes(ctx, l.db, c.From/1e6, c.To/1e6, c.width)
	return out, doing("counting the request log", err)
}

// counted counts the requests of exchanges, by the tallies where they know what is asked for.
func (l requestReader) counted(ctx context.Context, c *count) ([]adminapi.OutcomeBucket, error) {
	counts := tallies.Counts{}
	c.Columns = []segment.Column{segment.StartedAt, segment.RefusedBy, segment.Status, segment.Outcome,
		segment.Requests}
	begin, row := func() { clear(counts) }, func(r *segment.Row) {
		counts.Add(c.width, r.StartedAt/1e6, tallies.ClassOf(r.RefusedBy, int(r.Status), r.Outcome), r.Requests)
	}
	var err error
	if c.tallied != nil && c.tallied.Kept(l.db.Now()) {
		sum := func(r *tallies.Row) { counts.Add(c.width, r.Start, r.Class, r.Requests) }
		err = l.tallied(ctx, c.tallied, c.Query, begin, sum, row)
	} else {
		err = l.each(ctx, c.Query, begin, row)
	}
	return counts.Buckets(), err
}
