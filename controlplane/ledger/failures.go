package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/http"
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

// A Refusal is how many requests of a key one rule has refused with 429.
type Refusal struct {
	// By is the rule, such as "key/key_1 limit requests per minute".
	By                         string
	Key, Organization, Project string
	Requests                   int64
}

// Refusals returns the requests that rules have refused since a time, the most first, at most 1000 groups.
func (l requestReader) Refusals(ctx context.Context, since time.Time) ([]Refusal, error) {
	sums := map[Refusal]int64{}
	q := segment.Query{From: since.UnixMicro(), Where: segment.All(segment.Not(unrefused()),
		segment.Between(segment.Status, http.StatusTooManyRequests, http.StatusTooManyRequests)),
		Columns: []segment.Column{segment.RefusedBy, segment.Key, segment.Organization, segment.Project, segment.Requests}}
	err := l.each(ctx, q, func() { clear(sums) }, func(r *segment.Row) {
		sums[Refusal{By: r.RefusedBy, Key: r.Key, Organization: r.Organization, Project: r.Project}] += r.Requests
	})
	var all []Refusal
	for of, n := range sums {
		of.Requests = n
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b Refusal) int { return cmp.Compare(b.Requests, a.Requests) })
	return all[:min(len(all), mostRefusals)], doing("reading refusals", err)
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
