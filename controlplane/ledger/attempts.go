package ledger

import (
	"context"
	"fmt"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
)

const (
	// maxAttempts is how many attempts of an exchange are kept.
	maxAttempts = 16
	// maxMilliseconds bounds the times of an attempt: a day.
	maxMilliseconds = 24 * 60 * 60 * 1000
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

// Exchange returns an exchange with its attempts, by its id. It returns false if there is none.
func (l requestReader) Exchange(ctx context.Context, id string) (e adminapi.Exchange, found bool, err error) {
	rows, err := l.search(ctx, segment.Query{Where: segment.Equal(segment.ID, text(id)), Limit: 1})
	if err == nil && len(rows) > 0 {
		e, err = wholeExchange(&rows[0])
	}
	return e, len(rows) > 0 && err == nil, doing("reading an exchange", err)
}

// onlyAttemptOf returns the only attempt of an exchange, if it had one.
func onlyAttemptOf(e *adminapi.Exchange) []adminapi.Attempt {
	if e.Attempts == 0 || e.Provider == "" || e.RefusedBy != "" {
		return nil
	}
	a := adminapi.Attempt{Kind: "first", Provider: e.Provider, Model: e.Upstream, Status: e.Status,
		Error: attemptError(e.Outcome, uint32(max(e.Status, 0)), e.ErrorCode), FirstByteMS: e.FirstByteMS,
		DurationMS: e.DurationMS}
	if e.Outcome == "gateway" {
		a.Status = 0 // it is Envoy's
	}
	return []adminapi.Attempt{a}
}
