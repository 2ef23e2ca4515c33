package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// mostRefusals bounds the groups of refusals that are read.
const mostRefusals = 1000

// Failures returns how many requests there were since a time, and how many of them failed: those of a tenant, or of a
// provider, or all. Those of a tenant are counted, and the others are read from the sums by minute.
func (l requestReader) Failures(ctx context.Context, since time.Time, of Restriction,
	provider string) (all, bad int64, err error) {
	if of != (Restriction{}) {
		all, bad, err = l.failuresOf(ctx, since, of, provider)
		return all, bad, doing("reading failures", err)
	}
	if err := l.folded(ctx); err != nil {
		return 0, 0, err
	}
	s := l.db.Statement("SELECT COALESCE(", sum("requests"), ", 0), COALESCE(", sum("errors"), ", 0) FROM minutes")
	s.And("start", ">=", since.Unix())
	s.Equal("provider", provider)
	err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&all, &bad) })
	return all, bad, doing("reading failures", err)
}

func (l requestReader) failuresOf(ctx context.Context, since time.Time, of Restriction,
	provider string) (all, bad int64, err error) {
	where := []segment.Condition{unrefused()}
	for column, value := range map[segment.Column]string{segment.Key: of.Key, segment.Organization: of.Organization,
		segment.Project: of.Project, segment.Provider: provider} {
		if value != "" {
			where = append(where, segment.Equal(column, value))
		}
	}
	q := segment.Query{From: since.UnixMicro(), Where: segment.All(where...),
		Columns: []segment.Column{segment.Requests, segment.Status, segment.Outcome}}
	err = l.each(ctx, q, func() { all, bad = 0, 0 }, func(r *segment.Row) {
		all += r.Requests
		if (adminapi.Exchange{Status: int(r.Status), Outcome: r.Outcome}).Failed() {
			bad += r.Requests
		}
	})
	return all, bad, err
}

// A Refusal is how many requests of a key one rule has refused with one error.
type Refusal struct {
	// By is the rule, such as "key/key_1 limit requests per minute".
	By                               string
	Key, Hint, Organization, Project string // a key that is not known has a hint alone
	Code                             string
	Status, Requests                 int64
}

// Refusals returns the requests that were refused with some statuses since a time, the most first, at most 1000
// groups.
func (l requestReader) Refusals(ctx context.Context, since time.Time, statuses ...int64) ([]Refusal, error) {
	sums := map[Refusal]int64{}
	var with []segment.Condition
	for _, status := range statuses {
		with = append(with, segment.Between(segment.Status, status, status))
	}
	q := segment.Query{From: since.UnixMicro(), Where: segment.All(segment.Not(unrefused()), segment.Any(with...)),
		Columns: []segment.Column{segment.RefusedBy, segment.Key, segment.KeyHint, segment.Organization, segment.Project,
			segment.ErrorCode, segment.Status, segment.Requests}}
	err := l.each(ctx, q, func() { clear(sums) }, func(r *segment.Row) {
		sums[Refusal{By: r.RefusedBy, Key: r.Key, Hint: r.KeyHint, Organization: r.Organization, Project: r.Project,
			Code: r.ErrorCode, Status: r.Status}] += r.Requests
	})
	var all []Refusal
	for of, n := range sums {
		of.Requests = n
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b Refusal) int { return cmp.Compare(b.Requests, a.Requests) })
	return all[:min(len(all), mostRefusals)], doing("reading refusals", err)
}

// A Rejected is how many requests of a key were refused, or of unknown keys with one end.
type Rejected struct {
	Key, Hint string
	Requests  int64
	Last      time.Time // of unknown keys
}

// RejectedKeys returns the keys of which most requests were refused in a time, at most some, or only those that are
// named. The time is one of whole hours, and of whole days if it began long ago.
func (l requestReader) RejectedKeys(ctx context.Context, from, to time.Time, most int, keys ...string) ([]Rejected,
	error) {
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	width := int64(hours)
	if l.db.Now().Sub(from) >= keepNamedHours-time.Hour {
		width = days
	}
	s := l.db.Statement("SELECT name, ", sum("requests"), " FROM sums")
	s.And("field", "=", sumsOfRefused)
	s.And("width", "=", width)
	s.And("start", ">=", from.Unix()/width*width)
	s.And("start", "<", to.Unix())
	s.Among("name", keys)
	s.Add(" GROUP BY name ORDER BY 2 DESC, 1 LIMIT ", s.Arg(most))
	all, err := sqldb.All(ctx, s, l.db.Read, func(r *Rejected) []any { return []any{&r.Key, &r.Requests} })
	return all, doing("reading refused keys", err)
}

// Strangers returns the ends of unknown keys whose requests were refused in a time, the most first, as far as refused
// requests are kept.
func (l requestReader) Strangers(ctx context.Context, from, to time.Time) ([]Rejected, error) {
	found := map[string]*Rejected{}
	q := segment.Query{From: from.UnixMicro(), To: to.UnixMicro(), Where: segment.All(segment.Not(unrefused()),
		segment.Equal(segment.Key, "")),
		Columns: []segment.Column{segment.StartedAt, segment.KeyHint, segment.Requests}}
	err := l.each(ctx, q, func() { clear(found) }, func(r *segment.Row) {
		x := found[r.KeyHint]
		if x == nil {
			x = &Rejected{Hint: r.KeyHint}
			found[r.KeyHint] = x
		}
		x.Requests += r.Requests
		x.Last = later(x.Last, r.StartedAt)
	})
	all := make([]Rejected, 0, len(found))
	for _, x := range found {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(a, b Rejected) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Hint, b.Hint))
	})
	return all, doing("reading what was refused of unknown keys", err)
}

// LastRefused returns when a request of a key was last refused since a time; zero: none was.
func (l requestReader) LastRefused(ctx context.Context, since time.Time, key string) (at time.Time, err error) {
	last, err := l.search(ctx, segment.Query{From: since.UnixMicro(), Where: segment.All(segment.Equal(segment.Key, key),
		segment.Not(unrefused())), Limit: 1, Columns: []segment.Column{segment.StartedAt}})
	for i := range last {
		at = time.UnixMicro(last[i].StartedAt).UTC()
	}
	return at, doing("reading when a key was refused", err)
}

// Unavailable returns the client's error for an error of the ledger.
func Unavailable(err error) error {
	if _, ok := errors.AsType[*openai.Error](err); ok {
		return err
	}
	return httpapi.WithCause(openai.CodeLedgerUnavailable.New("The ledger is unreachable. Traffic continues, and usage is not lost."), err)
}

// For returns a context in which the ledger answers on behalf of an owner. Owners take turns, so that the queries of
// one neither keep those of another waiting, nor records and budgets.
func For(ctx context.Context, owner string) context.Context { return sqldb.For(ctx, owner) }

// ErrNone is the error of a control plane that has no ledger.
var ErrNone = errors.New("this control plane has no ledger")
