package sqldb

import (
	"context"
	"errors"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/turns"
)

// maxWaiting is how many queries of one owner wait for a connection.
const maxWaiting = 64

// ownerKey is the key of an owner in a context.
type ownerKey struct{}

// For returns a context whose queries are on behalf of an owner. Owners take turns, and leave a connection free for
// the queries of nobody: records, budgets, alerts.
func For(ctx context.Context, owner string) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// take waits until the owner of a query may use one of the connections for reading.
func (d *DB) take(ctx context.Context, turn *turns.Turn, db Conn) error {
	owner, ok := ctx.Value(ownerKey{}).(string)
	if !ok || db != Conn(d.Read) {
		return nil
	}
	err := turn.Take(ctx, d.turns, owner)
	if errors.Is(err, turns.ErrMany) || errors.Is(err, context.DeadlineExceeded) {
		return openai.CodeRateLimitExceeded.New("Too many queries of the ledger are running. Try again when they are complete.").
			After(10 * time.Second)
	}
	return err
}
