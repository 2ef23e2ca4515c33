// Package tallies keeps sums of the request log by day, and of a part of it by hour, so that a page of a month reads
// some hundred rows of them instead of all exchanges.
//
// Rows are added from segments, in the background, many at once: what records cost does not change. Each segment says
// whether it was added. [Store.Read] reads the sums and the exchanges that are in none, so that it is exact at any
// time, also of a ledger that is older than the tallies.
//
// A sum stays if a row is deleted of which it counts: refused requests are kept for a shorter time than others.
package tallies

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

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// Of what there are tallies.
const (
	// OfTenants are by organization, project, model, provider, class and status, of an hour and of a day.
	OfTenants = 0
	// OfKeys are by key, too.
	OfKeys = 1
	// OfUsers are by user, model, provider, class and status, of a day.
	OfUsers = 2
)

// Classes of exchanges. Refused ones were refused by the gateway, and are in no sum of usage.
const (
	Served = iota
	Failed
	Rejected
	Cancelled
	Refused
)

// ClassOf returns the class of an exchange.
func ClassOf(refusedBy string, status int, outcome string) int {
	switch {
	case refusedBy != "":
		return Refused
	case (adminapi.Exchange{Status: status, Outcome: outcome}).Failed():
		return Failed
	case outcome == "rejected":
		return Rejected
	case outcome == "cancelled":
		return Cancelled
	}
	return Served
}

const (
	hour = 3600
	day  = 86400
	// KeepHours is how long tallies by hour are kept. Those by day are kept as exchanges are.
	KeepHours = 10 * 24 * time.Hour
	// tries is how often a read begins again because rows were added meanwhile.
	tries = 10

	key      = "kind, width, start, name, organization, project, model, provider, class, status"
	measures = "requests, input_tokens, cached_tokens, output_tokens, cost"
	sums     = 5
)

// Tables are the statements that make the table.
func Tables(postgres bool) []string {
	within := " WITHOUT ROWID"
	if postgres {
		within = ""
	}
	return []string{"CREATE TABLE tallies (kind SMALLINT NOT NULL, name TEXT NOT NULL, width BIGINT NOT NULL, " +
		"start BIGINT NOT NULL, organization TEXT NOT NULL, project TEXT NOT NULL, model TEXT NOT NULL, " +
		"provider TEXT NOT NULL, class SMALLINT NOT NULL, status BIGINT NOT NULL, " +
		strings.ReplaceAll(measures, ",", " BIGINT NOT NULL,") + " BIGINT NOT NULL, PRIMARY KEY (" + key + "))" + within,
		"INSERT INTO ledger_state (name, value) VALUES ('tallies', 0) ON CONFLICT (name) DO NOTHING"}
}

// A group is what a row of the table is of.
type group struct {
	kind                  int64
	name                  string
	width, start          int64
	organization, project string
	model, provider       string
	class, status         int64
}

// A Row is a sum.
type Row struct {
	Start                           int64 // in seconds
	Name, Model, Provider           string
	Class                           int
	Requests, Input, Cached, Output int64
	Cost                            int64
}

// Group returns the user, model or provider.
func (r *Row) Group(by string) string {
	switch by {
	case "user":
		return r.Name
	case "model":
		return r.Model
	case "provider":
		return r.Provider
	}
	return ""
}

// A tally gathers sums.
type tally struct {
	db    *sqldb.DB
	hours int64 // since when tallies by hour are kept, in microseconds
	all   map[group]*[sums]int64
}

var _ segstore.Tally = (*tally)(nil)

// Columns implements [segstore.Tally].
func (*tally) Columns() []segment.Column {
	return []segment.Column{segment.StartedAt, segment.Organization, segment.Project, segment.User, segment.Key,
		segment.Model, segment.Provider, segment.Status, segment.Outcome, segment.RefusedBy, segment.Requests, segment.Cost,
		segment.UsedColumn(usage.InputTokens), segment.UsedColumn(usage.CachedTokens),
		segment.UsedColumn(usage.OutputTokens)}
}

// Add implements [segstore.Tally].
func (t *tally) Add(r *segment.Row) {
	g := group{model: r.Model, provider: r.Provider, class: int64(ClassOf(r.RefusedBy, int(r.Status), r.Outcome)),
		status: r.Status}
	if r.User != "" {
		g.kind, g.name = OfUsers, r.User
		t.add(g, r, day)
	}
	g.organization, g.project = r.Organization, r.Project
	if r.Key != "" {
		g.kind, g.name = OfKeys, r.Key
		t.add(g, r, hour)
		t.add(g, r, day)
	}
	g.kind, g.name = OfTenants, ""
	t.add(g, r, hour)
	t.add(g, r, day)
}

func (t *tally) add(g group, r *segment.Row, width int64) {
	if width == hour && r.StartedAt < t.hours {
		return
	}
	g.width, g.start = width, r.StartedAt/1e6/width*width
	s := t.all[g]
	if s == nil {
		s = &[sums]int64{}
		t.all[g] = s
	}
	for i, n := range [sums]int64{r.Requests, r.Used[usage.InputTokens], r.Used[usage.CachedTokens],
		r.Used[usage.OutputTokens], r.Cost} {
		s[i] += n
	}
}

var into = sqldb.NewAdding("tallies", key, strings.Split(measures, ", "))

// Insert is the statement by which rows are added, so that it can be prepared.
func Insert() *sqldb.Insert { return into }

// Put implements [segstore.Tally]. The order is the same for all transactions.
func (t *tally) Put(ctx context.Context, tx *sql.Tx) error {
	all := slices.SortedFunc(maps.Keys(t.all), compareGroups)
	_, err := t.db.Put(ctx, tx, into, false, len(all), func(i int, v *sqldb.Values) {
		g := &all[i]
		v.Add(g.kind, g.width, g.start, g.name, g.organization, g.project, g.model, g.provider, g.class, g.status)
		v.AddAll(t.all[*g][:])
	})
	if err == nil {
		_, err = t.db.Statement("UPDATE ledger_state SET value = value + 1 WHERE name = 'tallies'").Exec(ctx, tx)
	}
	return err
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start),
		strings.Compare(a.name, b.name), strings.Compare(a.organization, b.organization),
		strings.Compare(a.project, b.project), strings.Compare(a.model, b.model),
		strings.Compare(a.provider, b.provider), cmp.Compare(a.class, b.class), cmp.Compare(a.status, b.status))
}

// A Store is the tallies of a ledger.
type Store struct {
	DB       *sqldb.DB
	Segments *segstore.Store
}

// Tally adds segments to the tallies: those that are enough for a transaction, and what has waited for ten minutes, or
// all.
func (s Store) Tally(ctx context.Context, all bool) error {
	begin := func() segstore.Tally {
		return &tally{s.DB, s.DB.Now().Add(-KeepHours).UnixMicro(), map[group]*[sums]int64{}}
	}
	for {
		more, err := s.Segments.TallyNext(ctx, all, begin)
		if err != nil || !more {
			return err
		}
	}
}

// A Query asks for sums. What is empty is no condition.
type Query struct {
	// Kind is OfTenants, OfKeys or OfUsers. Names are keys or users.
	Kind     int
	Names    []string
	From, To time.Time
	Width    time.Duration
	// Where are columns, and the values that one must have.
	Where map[string][]string
	// Status is that of the answer, and Class that of the exchange, or Any.
	Status, Class int64
}

// Any is no condition.
const Any = -1

// Kept reports whether there are sums for a query: of whole days, or of hours that are still kept.
func (q *Query) Kept(now time.Time) bool {
	if q.Width == day*time.Second {
		return true
	}
	return q.Width == hour*time.Second && q.Kind != OfUsers && now.Sub(q.From) < KeepHours-time.Hour
}

// Read calls begin, then sum with each sum, and row with each exchange that rest wants and that is in no sum. It may
// begin again.
func (s Store) Read(ctx context.Context, q *Query, rest segment.Query, begin func(), sum func(*Row),
	row func(*segment.Row)) error {
	return s.unchanged(ctx, func() error {
		all, err := s.read(ctx, q)
		if err != nil {
			return err
		}
		return s.Segments.EachUntallied(ctx, rest, func() {
			begin()
			for i := range all {
				sum(&all[i])
			}
		}, row)
	})
}

// unchanged calls read, again if rows were added meanwhile.
func (s Store) unchanged(ctx context.Context, read func() error) error {
	for range tries {
		before, err := s.version(ctx)
		if err != nil {
			return err
		}
		if err := read(); err != nil {
			return err
		}
		if after, err := s.version(ctx); err != nil || after == before {
			return err
		}
	}
	return errors.New("reading tallies: they change all the time")
}

// mostDays is how long the time of a search is of which the tallies are read.
const mostDays = 100

// Search returns the exchanges that a search wants. Its filters are those of the query, which may lack some: on days
// that have none of the query, only what is in no sum is looked at.
func (s Store) Search(ctx context.Context, q *Query, search segment.Query) (rows []segment.Row, err error) {
	q.From, q.To, q.Width = time.UnixMicro(search.From), time.UnixMicro(search.To), day*time.Second
	if search.To == 0 {
		q.To = s.DB.Now().Add(2 * q.Width)
	}
	q.From = q.From.Truncate(q.Width)
	bare := q.Kind == OfTenants && len(q.Where) == 0 && q.Status < 0 && q.Class < 0
	if long := q.To.Sub(q.From); bare || long < 2*q.Width || long > mostDays*q.Width {
		return s.Segments.Search(ctx, search)
	}
	err = s.unchanged(ctx, func() error {
		all, err := s.read(ctx, q)
		if err != nil {
			return err
		}
		begun := func(from, to int64) bool {
			return slices.ContainsFunc(all, func(r Row) bool { return r.Start*1e6 <= to && (r.Start+day)*1e6 > from })
		}
		rows, err = s.Segments.SearchSome(ctx, search, begun)
		return err
	})
	return rows, err
}

// version returns a number that changes when rows are added.
func (s Store) version(ctx context.Context) (n int64, err error) {
	err = s.DB.Statement("SELECT value FROM ledger_state WHERE name = 'tallies'").Each(ctx, s.DB.Read,
		func(rows *sql.Rows) error { return rows.Scan(&n) })
	return n, err
}

// read returns the sums, by what of them is asked for.
func (s Store) read(ctx context.Context, q *Query) ([]Row, error) {
	width := int64(q.Width / time.Second)
	t := s.DB.Statement("SELECT start, name, model, provider, class")
	for m := range strings.SplitSeq(measures, ", ") {
		t.Add(", ", sqldb.Sum(m))
	}
	t.Add(" FROM tallies")
	t.And("kind", "=", q.Kind)
	t.And("width", "=", width)
	if len(q.Names) > 0 { // as their key has it: between two times, the rows of all names would be read
		var starts []string
		for at := q.From.Unix() / width * width; at < q.To.Unix(); at += width {
			starts = append(starts, strconv.FormatInt(at, 10))
		}
		t.Condition("start IN (" + strings.Join(starts, ", ") + ")")
		t.Among("name", q.Names)
	} else {
		t.And("start", ">=", q.From.Unix())
		t.And("start", "<", q.To.Unix())
	}
	for _, column := range slices.Sorted(maps.Keys(q.Where)) {
		t.Among(column, q.Where[column])
	}
	if q.Status >= 0 {
		t.And("status", "=", q.Status)
	}
	if q.Class >= 0 {
		t.And("class", "=", q.Class)
	}
	t.Add(" GROUP BY start, name, model, provider, class")
	return sqldb.All(ctx, t, s.DB.Read, func(r *Row) []any {
		return []any{&r.Start, &r.Name, &r.Model, &r.Provider, &r.Class, &r.Requests, &r.Input, &r.Cached, &r.Output,
			&r.Cost}
	})
}

// Prune deletes the tallies by hour that are old, and those of days that ended before a time, those of one time at
// once, and returns how many.
func (s Store) Prune(ctx context.Context, before time.Time) (total int64, err error) {
	oldest := map[int64]int64{hour: s.DB.Now().Add(-KeepHours).Unix(), day: before.Truncate(day * time.Second).Unix()}
	for _, kind := range [...]int{OfTenants, OfKeys, OfUsers} {
		for _, width := range [...]int64{hour, day} {
			of := fmt.Sprintf("kind = %d AND width = %d AND ", kind, width)
			for n := int64(1); n > 0 && err == nil; total += n {
				t := s.DB.Statement("DELETE FROM tallies WHERE ", of, "start = (SELECT MIN(start) FROM tallies WHERE ", of,
					"start < ")
				t.Add(t.Arg(oldest[width]), ")")
				n, err = t.Exec(ctx, s.DB.Write)
			}
		}
	}
	return total, err
}

// OfUser adds the condition of the tallies of a user to a statement.
func OfUser(s *sqldb.Statement, user string) {
	s.And("kind", "=", OfUsers)
	s.And("name", "=", user)
}
