package ledger

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// mostRefusals bounds the groups of refusals that are read.
const mostRefusals = 1000

// Failures returns how many requests there were since a time, and how many of them failed: those of a tenant, or of a
// provider, or all. Those of a tenant are counted, and the others are read from the sums by minute.
func (l requestReader) Failures(ctx context.Context, since time.Time, of Restriction,
	provider string) (all, bad int64, err error) {
	var s *sqldb.Statement
	if of == (Restriction{}) {
		if err := l.folded(ctx); err != nil {
			return 0, 0, err
		}
		s = l.db.Statement("SELECT COALESCE(", sum("requests"), ", 0), COALESCE(", sum("errors"), ", 0) FROM minutes")
		s.And("start", ">=", since.Unix())
	} else {
		s = l.db.Statement("SELECT COALESCE(", sum("requests"), ", 0), COALESCE(",
			sum("CASE WHEN "+isFailed+" THEN requests ELSE 0 END"),
			", 0) FROM exchanges")
		s.And("at", ">=", since.UnixMicro())
		s.Condition(notRefused)
		s.Equal("api_key", of.Key)
		s.Equal("organization", of.Organization)
		s.Equal("project", of.Project)
	}
	s.Equal("provider", provider)
	err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&all, &bad) })
	return all, bad, doing("reading failures", err)
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
	s := l.db.Statement("SELECT refused_by, api_key, organization, project, ", sum("requests"), " FROM exchanges")
	s.Condition("refused_by <> ''") // as the index has it
	s.And("at", ">=", since.UnixMicro())
	s.And("status", "=", http.StatusTooManyRequests)
	s.Add(" GROUP BY refused_by, api_key, organization, project ORDER BY 5 DESC LIMIT ", s.Arg(mostRefusals))
	all, err := sqldb.All(ctx, s, l.db.Read, func(r *Refusal) []any {
		return []any{&r.By, &r.Key, &r.Organization, &r.Project, &r.Requests}
	})
	return all, doing("reading refusals", err)
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
