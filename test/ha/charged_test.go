package ha

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/test/harness"
)

// transport is one of its own for each call.
func (c *cluster) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.authorities}, ForceAttemptHTTP2: true}
}

// charged is what the ledger has of the key of the load.
type charged struct {
	requests map[string]int64 // tokens, by the request's id, of those that were finished
	lines    map[string]int64 // the same of lines of batches, by the id under which they are charged
	unclean  map[string]int   // by outcome, what was charged and not finished
	cut      int64            // tokens of what was not finished
	sum      int64            // tokens of all, as the sums that are kept have it
}

// add adds an exchange, if it is of the key.
func (c *charged) add(r *segment.Row, key string) error {
	tokens := r.Used[usage.InputTokens] + r.Used[usage.OutputTokens]
	switch {
	case r.Key != key || r.Operation != "chat/completions" || r.Model == "vendor/probe":
	case len(r.ID) > 6 && r.ID[:6] == "batch_":
		if _, twice := c.lines[r.ID]; twice {
			return fmt.Errorf("line %s is charged twice", r.ID)
		}
		c.lines[r.ID] = tokens
	case r.Outcome != "finished" && tokens == 0: // such as a line of a batch that is asked again
	case r.Outcome != "finished":
		c.unclean[r.Outcome]++
		c.cut += tokens
	default:
		if _, twice := c.requests[r.RequestID]; twice {
			return fmt.Errorf("request %s is charged twice", r.RequestID)
		}
		c.requests[r.RequestID] = tokens
	}
	return nil
}

func (l *load) charged(ctx context.Context, db *sql.DB) (charged, error) {
	all := charged{map[string]int64{}, map[string]int64{}, map[string]int{}, 0, 0}
	book, err := ledger.Open(ctx, l.c.database, zap.NewNop())
	if err != nil {
		return all, err
	}
	defer func() { _ = book.Close() }()
	err = book.Export(ctx, time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour), func(rows []segment.Row) error {
		for i := range rows {
			if err := all.add(&rows[i], l.id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return all, err
	}
	waiting := 0
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM journal").Scan(&waiting); err != nil {
		return all, err
	}
	if waiting > 0 { // until the next of those who follow what is spent asks
		return all, fmt.Errorf("%d batches of records are in no sum yet", waiting)
	}
	err = db.QueryRowContext(ctx,
		"SELECT COALESCE(SUM(input_tokens + output_tokens), 0) FROM aggregates WHERE level = 1 AND api_key = $1 AND operation = 'chat/completions' AND model <> 'vendor/probe'", l.id).Scan(&all.sum)
	return all, err
}

// requireExact waits until the ledger has what the load got, and requires that it has all of it, once, and nothing
// else. Lost is how many requests have failed in the load, which may be charged or not.
func (l *load) requireExact(t *testing.T, lost int) {
	t.Helper()
	db, err := sql.Open("pgx", l.c.database)
	require.NoError(t, err)
	defer db.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all charged
	harness.Eventually(t, "the ledger has every answer", func() error {
		if all, err = l.charged(t.Context(), db); err != nil {
			return err
		}
		missing := 0
		for id := range l.answered {
			if _, ok := all.requests[id]; !ok {
				missing++
			}
		}
		if missing > 0 || len(all.lines) < len(l.batches)*batchLines {
			return fmt.Errorf("%d of %d answers are missing, and there are %d lines of %d", missing, len(l.answered),
				len(all.lines), len(l.batches)*batchLines)
		}
		return nil
	})
	t.Logf("the ledger: %d requests of %d that clients got, %d lines of %d in %d batches, %v; %d requests were lost",
		len(all.requests), len(l.answered), len(all.lines), len(l.batches)*batchLines, len(l.batches), all.unclean, lost)
	sum := all.cut
	for id, tokens := range l.answered {
		require.Equal(t, tokens, all.requests[id], "request %s", id)
	}
	for _, tokens := range all.requests {
		sum += tokens
	}
	for id, tokens := range all.lines {
		require.EqualValues(t, promptTokens+answerTokens, tokens, "line %s", id)
		sum += tokens
	}
	extra := len(all.requests) - len(l.answered)
	for outcome, n := range all.unclean {
		if outcome == "cancelled" { // the provider was asked all the same
			n -= min(n, l.mayCut)
		}
		extra += n
	}
	byBatch := map[string]int{}
	for id := range all.lines {
		batch, _, _ := strings.Cut(id, "/")
		byBatch[batch]++
	}
	for batch := range l.batches {
		require.Equal(t, batchLines, byBatch[batch], batch)
		delete(byBatch, batch)
	}
	extra += len(byBatch) // batches whose client has lost the answer
	require.LessOrEqual(t, extra, lost, "nothing is charged that nobody asked: %v, %v", all.unclean, byBatch)
	if lost == 0 {
		require.Equal(t, sum, all.sum, "the sums are those of the exchanges")
	}
}
