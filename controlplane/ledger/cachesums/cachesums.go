// Package cachesums keeps what response caches did, in sums by hour and day, tenant, model and cache.
//
// What a hit has saved is what its answer has cost before, which its record has. How long it would have taken is not
// known: it is taken to be as long as the requests for the same model that the cache did not answer, on average.
package cachesums

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Use is an exchange with a cache.
type Use struct {
	At                           time.Time
	Organization, Project, Model string
	Text                         string // what the cache did, as the record says it
	Requests                     int64
	Took                         time.Duration
	Finished                     bool
}

type group struct {
	width, start                        int64
	organization, project, model, cache string
}

// Sums are what a cache did for a model.
type Sums struct {
	Model, Cache           string
	Hits, Misses, Bypassed int64
	Saved                  usage.Nano
	hitMS, missMS, timed   int64 // timed are the misses that finished
}

// Took returns how much longer the hits would have taken if they were none.
func (s *Sums) Took() time.Duration {
	if s.timed == 0 {
		return 0
	}
	return time.Duration(max(int64(float64(s.missMS)/float64(s.timed)*float64(s.Hits))-s.hitMS, 0)) * time.Millisecond
}

const (
	hour = 3600
	day  = 86400

	key      = "width, start, organization, project, model, cache"
	measures = "hits, misses, bypassed, saved, hit_ms, miss_ms, timed"
)

func (s *Sums) numbers() []int64 {
	return []int64{s.Hits, s.Misses, s.Bypassed, int64(s.Saved), s.hitMS, s.missMS, s.timed}
}

func (s *Sums) add(u *Use, c usage.Cached) {
	switch {
	case c.Served():
		s.Hits, s.Saved, s.hitMS = s.Hits+u.Requests, s.Saved.Plus(c.Saved), s.hitMS+u.Took.Milliseconds()
	case c.Result == "bypass":
		s.Bypassed += u.Requests
	default:
		s.Misses += u.Requests
		if u.Finished {
			s.missMS, s.timed = s.missMS+u.Took.Milliseconds(), s.timed+u.Requests
		}
	}
}

// Totals are sums that are to be added to those that are kept.
type Totals map[group]*Sums

// Add adds an exchange, unless no cache was for it.
func (t Totals) Add(u Use) {
	c, ok := usage.ParseCached(u.Text)
	if !ok {
		return
	}
	for _, width := range [...]int64{hour, day} {
		g := group{width, u.At.Unix() / width * width, u.Organization, u.Project, u.Model, c.Cache}
		if t[g] == nil {
			t[g] = &Sums{}
		}
		t[g].add(&u, c)
	}
}

var into = sqldb.NewAdding("cache_sums", key, strings.Split(measures, ", "))

// Insert is the statement by which Put adds, so that it can be prepared.
func Insert() *sqldb.Insert { return into }

// Put adds the sums to those that are kept, in an order that is the same for all transactions.
func (t Totals) Put(ctx context.Context, db *sqldb.DB, tx *sql.Tx) error {
	all := slices.SortedFunc(maps.Keys(t), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start),
			strings.Compare(a.organization, b.organization), strings.Compare(a.project, b.project),
			strings.Compare(a.model, b.model), strings.Compare(a.cache, b.cache))
	})
	_, err := db.Put(ctx, tx, into, false, len(all), func(i int, v *sqldb.Values) {
		g := &all[i]
		v.Add(g.width, g.start, g.organization, g.project, g.model, g.cache)
		v.AddAll(t[*g].numbers())
	})
	return err
}

// A Query asks for sums of a time. What is empty is no condition.
type Query struct {
	From, To                     time.Time
	Organization, Project, Model string
}

// Width returns how wide the sums are that answer a query: an hour, or a day if its time is longer than nine days.
func (q Query) Width() time.Duration {
	if q.To.Sub(q.From) > 9*24*time.Hour {
		return day * time.Second
	}
	return hour * time.Second
}

// most is how many models of caches are read.
const most = 1000

// Read returns the sums of each model and cache, those first that saved most, at most 1000. The time is one of whole
// hours, and of whole days if it is longer than nine days.
func Read(ctx context.Context, db *sqldb.DB, q Query) ([]Sums, error) {
	width := int64(q.Width() / time.Second)
	s := db.Statement("SELECT model, cache")
	for name := range strings.SplitSeq(measures, ", ") {
		s.Add(", ", sqldb.Sum(name))
	}
	s.Add(" FROM cache_sums")
	s.And("width", "=", width)
	s.And("start", ">=", q.From.Unix()/width*width)
	s.And("start", "<", q.To.Unix())
	s.Equal("organization", q.Organization)
	s.Equal("project", q.Project)
	s.Equal("model", q.Model)
	s.Add(" GROUP BY model, cache ORDER BY SUM(saved) DESC, SUM(hits) DESC, model, cache LIMIT ", s.Arg(most))
	return sqldb.All(ctx, s, db.Read, func(x *Sums) []any {
		return []any{&x.Model, &x.Cache, &x.Hits, &x.Misses, &x.Bypassed, &x.Saved, &x.hitMS, &x.missMS, &x.timed}
	})
}

// Prune deletes the sums from before a time, and returns how many.
func Prune(ctx context.Context, db *sqldb.DB, before time.Time) (int64, error) {
	s := db.Statement("DELETE FROM cache_sums")
	s.And("start", "<", before.Unix())
	return s.Exec(ctx, db.Write)
}
