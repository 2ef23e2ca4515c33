package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// rejectedFor is how long it matters that a credential was refused.
const rejectedFor = 15 * time.Minute

// Rejected returns the providers that have refused their credential in the last 15 minutes, by name.
func (l usageReader) Rejected(ctx context.Context) ([]attention.Rejection, error) {
	s := l.db.Statement("SELECT provider, COUNT(*), MAX(at) FROM attempts")
	s.And("at", ">=", l.db.Now().Add(-rejectedFor).UnixMicro())
	s.Condition(fmt.Sprintf("status IN (%d, %d)", http.StatusUnauthorized, http.StatusForbidden))
	s.Add(" GROUP BY provider ORDER BY provider")
	all, err := sqldb.All(ctx, s, l.db.Read, func(r *attention.Rejection) []any {
		return []any{&r.Provider, &r.Times, micros(&r.Last)}
	})
	return all, doing("reading refused credentials", err)
}

// Unjudged returns the rules of guardrails whose checkers were unavailable in the last 15 minutes, by name.
func (l usageReader) Unjudged(ctx context.Context) ([]attention.Unjudged, error) {
	s := l.db.Statement("SELECT refused_by, ", sum("requests"), ", MAX(at) FROM exchanges")
	s.Condition("refused_by <> ''") // as the index has it
	s.And("at", ">=", l.db.Now().Add(-rejectedFor).UnixMicro())
	s.And("error_code", "=", openai.CodeCheckerUnavailable)
	s.Add(" GROUP BY refused_by ORDER BY refused_by")
	all, err := sqldb.All(ctx, s, l.db.Read, func(u *attention.Unjudged) []any {
		return []any{&u.Rule, &u.Times, micros(&u.Last)}
	})
	for i := range all {
		all[i].Rule = strings.TrimPrefix(all[i].Rule, "guardrail ")
	}
	return all, doing("reading what no checker has judged", err)
}

// Week returns what subjects have spent in the 7 days before today and today, UTC, those that have spent something. At
// most 1000 can be asked for at once. For the names of subjects see [Ledger.SpentBy].
func (l usageReader) Week(ctx context.Context, subjects ...string) (map[string]usage.Nano, error) {
	found := map[string]usage.Nano{}
	if len(subjects) == 0 {
		return found, nil
	}
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	s := l.db.Statement("SELECT subject, ", sum("cost"), " FROM spent")
	s.Among("subject", subjects)
	s.And("period", "=", periodDay)
	s.And("start", ">=", day(l.db.Now()).AddDate(0, 0, -7).Unix())
	s.Add(" GROUP BY subject")
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var subject string
		var spent usage.Nano
		err := rows.Scan(&subject, &spent)
		found[subject] = spent
		return err
	})
	return found, doing("reading what was spent in a week", err)
}
