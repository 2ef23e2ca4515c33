package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
)

// BatchCost returns what the answered requests of a batch have cost: of a key, and from its creation on, as the index
// has them. Their ids begin with the batch's.
func (l *Ledger) BatchCost(ctx context.Context, batch, key string, created time.Time) (adminapi.BatchCost, error) {
	var cost adminapi.BatchCost
	var sum usage.Nano
	s := l.statement("SELECT COALESCE(SUM(requests), 0), COALESCE(SUM(requests * (1 - priced)), 0), COALESCE(SUM(cost), 0) ",
		"FROM exchanges")
	s.and("api_key", "=", text(key))
	s.and("at", ">=", created.UnixMicro())
	prefix := text(batch) + "/"
	s.condition("(id = " + s.arg(text(batch)) + " OR SUBSTR(id, 1, " + s.arg(len(prefix)) + ") = " + s.arg(prefix) + ")")
	err := s.each(ctx, l.read, func(rows *sql.Rows) error { return rows.Scan(&cost.Requests, &cost.Unpriced, &sum) })
	if err != nil {
		return cost, fmt.Errorf("reading the cost of a batch: %w", err)
	}
	cost.USD = sum.String()
	return cost, nil
}
