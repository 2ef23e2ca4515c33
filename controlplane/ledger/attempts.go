package ledger

import (
	"context"
	"database/sql"
	"fmt"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

const (
	// maxAttempts is how many attempts of an exchange are kept.
	maxAttempts = 16
	// maxMilliseconds bounds the times of an attempt: a day.
	maxMilliseconds = 24 * 60 * 60 * 1000
	// notRefused is the condition on an exchange that the gateway did not refuse.
	notRefused = "refused_by = ''"
)

// keptAttempts returns what is kept of a record's attempts.
func keptAttempts(r *ledgerv1.Record) []*ledgerv1.Attempt {
	list := r.GetAttemptList()
	if len(list) == 0 {
		return nil
	}
	kept := make([]*ledgerv1.Attempt, 0, min(len(list), maxAttempts))
	for _, a := range list[:min(len(list), maxAttempts)] {
		kept = append(kept, &ledgerv1.Attempt{Kind: text(a.GetKind()), Provider: text(a.GetProvider()),
			UpstreamModel: text(a.GetUpstreamModel()), Status: a.GetStatus(), Error: text(a.GetError()),
			StartMs: milliseconds(a.GetStartMs()), FirstByteMs: milliseconds(a.GetFirstByteMs()),
			DurationMs: milliseconds(a.GetDurationMs()), CoolMs: milliseconds(a.GetCoolMs())})
	}
	return kept
}

func milliseconds(n int64) int64 { return min(max(n, 0), maxMilliseconds) }

// onlyAttempt makes the only attempt of an exchange from the row's fields.
func (r *row) onlyAttempt(a *ledgerv1.Attempt) {
	a.Kind, a.Provider, a.UpstreamModel, a.Status = "first", r.Provider, r.UpstreamModel, r.Status
	a.Error = attemptError(r.Outcome, r.Status, r.ErrorCode)
	a.FirstByteMs, a.DurationMs = r.FirstByteMs, r.duration.Milliseconds()
	if r.Outcome == "gateway" {
		a.Status = 0 // it is Envoy's
	}
}

// attemptError returns why the only attempt of an exchange failed, or "".
func attemptError(outcome string, status uint32, code string) string {
	switch outcome {
	case "failed", "truncated", "gateway":
		if code != "" {
			return code
		}
		if status >= 400 {
			return fmt.Sprint("status ", status)
		}
		return outcome
	}
	return ""
}

var intoAttempts = sqldb.NewInsert("attempts", "exchange, number, at, kind, provider, upstream_model, status, error, start_ms, "+
	"first_byte_ms, duration_ms", "ON CONFLICT (exchange, number) DO NOTHING")

// addAttempts keeps the attempts of exchanges that are new.
func (l *writer) addAttempts(ctx context.Context, tx *sql.Tx, rows []row) error {
	type numbered struct {
		of     *row
		number int
	}
	var all []numbered
	for i := range rows {
		for n := range rows[i].AttemptList {
			all = append(all, numbered{&rows[i], n})
		}
	}
	_, err := l.db.Put(ctx, tx, intoAttempts, false, len(all), func(i int, v *sqldb.Values) {
		r, a := all[i].of, all[i].of.AttemptList[all[i].number]
		v.Add(r.Id, int64(all[i].number+1), r.at.UnixMicro(), a.GetKind(), a.GetProvider(), a.GetUpstreamModel(),
			int64(a.GetStatus()), a.GetError(), a.GetStartMs(), a.GetFirstByteMs(), a.GetDurationMs())
	})
	return err
}

// Exchange returns an exchange with its attempts, by its id. It returns false if there is none.
func (l requestReader) Exchange(ctx context.Context, id string) (e adminapi.Exchange, found bool, err error) {
	s := l.db.Statement(selectExchanges)
	s.And("id", "=", text(id))
	all, err := sqldb.All(ctx, s, l.db.Read, intoExchange)
	if err == nil && len(all) > 0 {
		e, found = all[0], true
		e.Detail, err = l.detailOf(ctx, e.ID)
	}
	if err == nil && found {
		e.AttemptList, err = l.attemptsOf(ctx, &e)
	}
	return e, found && err == nil, doing("reading an exchange", err)
}

func (l requestReader) attemptsOf(ctx context.Context, e *adminapi.Exchange) (list []adminapi.Attempt, err error) {
	s := l.db.Statement("SELECT kind, provider, upstream_model, status, error, start_ms, first_byte_ms, duration_ms FROM attempts")
	s.And("exchange", "=", e.ID)
	s.Add(" ORDER BY number")
	list, err = sqldb.All(ctx, s, l.db.Read, func(a *adminapi.Attempt) []any {
		return []any{&a.Kind, &a.Provider, &a.Model, &a.Status, &a.Error, &a.StartMS, &a.FirstByteMS, &a.DurationMS}
	})
	if err == nil && len(list) == 0 && e.Attempts > 0 && e.Provider != "" && e.RefusedBy == "" {
		list = append(list, adminapi.Attempt{Kind: "first", Provider: e.Provider, Model: e.Upstream, Status: e.Status,
			Error: attemptError(e.Outcome, uint32(max(e.Status, 0)), e.ErrorCode), FirstByteMS: e.FirstByteMS,
			DurationMS: e.DurationMS})
		if e.Outcome == "gateway" {
			list[0].Status = 0 // it is Envoy's
		}
	}
	return list, err
}
