package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// rowsAtOnce is how many rows of an export are in memory.
const rowsAtOnce = 8192

// Export calls f with the exchanges that began from a time until another, oldest first, some at a time. It is no
// snapshot: what is recorded meanwhile may be among them or not.
func (l requestReader) Export(ctx context.Context, from, until time.Time, f func([]segment.Row) error) error {
	for last := (segment.Row{StartedAt: from.UnixMicro() - 1}); ; {
		rows, err := l.rowsAfter(ctx, &last, until)
		if err == nil {
			err = l.withAttempts(ctx, rows)
		}
		if err != nil {
			return fmt.Errorf("reading the request log: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		last = rows[len(rows)-1]
		if err := f(rows); err != nil {
			return err
		}
	}
}

// rowsAfter returns the exchanges that come next, without their attempts.
func (l requestReader) rowsAfter(ctx context.Context, last *segment.Row, until time.Time) (rows []segment.Row,
	err error) {
	columns, table, _ := strings.Cut(selectExchanges, " FROM ")
	s := l.db.Statement(columns, ", details FROM ", table)
	s.And("at", ">=", last.StartedAt)
	s.And("at", "<", until.UnixMicro())
	s.Condition("(at, id) > (" + s.Arg(last.StartedAt) + ", " + s.Arg(last.ID) + ")")
	s.Add(" ORDER BY at, id LIMIT ", s.Arg(rowsAtOnce))
	err = s.Each(ctx, l.db.Read, func(scanned *sql.Rows) error {
		var r segment.Row
		details := ""
		if err := scanned.Scan(append(intoRow(&r), &details)...); err != nil {
			return err
		}
		if err := setDetails(&r, details); err != nil {
			return fmt.Errorf("the details of %s: %w", r.ID, err)
		}
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// intoRow returns where the columns of selectExchanges go.
func intoRow(r *segment.Row) []any {
	into := append(make([]any, 0, 40), &r.ID, &r.RequestID, &r.StartedAt, &r.DurationMS, &r.FirstByteMS, &r.Key,
		&r.Organization, &r.Project, &r.User, &r.Operation, &r.Model, &r.Provider, &r.UpstreamModel, &r.Attempts,
		&r.Stream, &r.Status, &r.Outcome, &r.ErrorCode)
	for k := range usage.Kinds {
		into = append(into, &r.Used[k])
	}
	return append(into, &r.Estimated, &r.Batch, &r.Cost, &r.Priced, &r.PriceVersion, &r.Requests, &r.RefusedBy,
		&r.KeyHint)
}

// setDetails sets what is kept as JSON.
func setDetails(r *segment.Row, details string) (err error) {
	if details == "" {
		return nil
	}
	var d adminapi.ExchangeDetail
	if err := json.Unmarshal([]byte(details), &d); err != nil {
		return err
	}
	r.TraceID, r.UpstreamID, r.Dropped, r.Adjusted = d.TraceID, d.UpstreamID, d.Dropped, d.Adjusted
	r.Cache, r.Policy, r.Plan, r.Guards = d.Cache, d.Policy, d.Plan, d.Guards
	if d.FeesUSD != "" {
		if r.Fees, err = nano(d.FeesUSD); err != nil {
			return err
		}
	}
	for _, x := range d.Limits {
		limit := segment.Limit{Rule: x.Rule}
		if limit.Reserved, err = heldAmount(x.Rule, x.Reserved); err == nil {
			limit.Settled, err = heldAmount(x.Rule, x.Settled)
		}
		if err != nil {
			return err
		}
		r.Limits = append(r.Limits, limit)
	}
	return setOtherKinds(r, details)
}

// setOtherKinds sets the amounts of kinds of usage without a column of exchanges.
func setOtherKinds(r *segment.Row, details string) error {
	var members map[string]json.RawMessage
	for k := usage.Kinds; k < usage.All; k++ {
		name := usage.Fields[k].Column
		if !strings.Contains(details, `"`+name+`":`) {
			continue
		}
		if members == nil {
			if err := json.Unmarshal([]byte(details), &members); err != nil {
				return err
			}
		}
		if n, ok := members[name]; ok {
			if err := json.Unmarshal(n, &r.Used[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// heldAmount reads what amountOf writes.
func heldAmount(rule, amount string) (int64, error) {
	if strings.Contains(rule, " limit ") {
		return strconv.ParseInt(amount, 10, 64)
	}
	return nano(amount)
}

func nano(amount string) (int64, error) {
	n, err := usage.ParseUSD(amount)
	return int64(n), err
}

// withAttempts sets the attempts of exchanges, which are in the order of their time.
func (l requestReader) withAttempts(ctx context.Context, rows []segment.Row) error {
	if len(rows) == 0 {
		return nil
	}
	of := make(map[string]*segment.Row, len(rows))
	for i := range rows {
		of[rows[i].ID] = &rows[i]
	}
	s := l.db.Statement("SELECT exchange, kind, provider, upstream_model, status, error, start_ms, first_byte_ms, duration_ms FROM attempts")
	s.And("at", ">=", rows[0].StartedAt)
	s.And("at", "<=", rows[len(rows)-1].StartedAt)
	s.Add(" ORDER BY exchange, number")
	return s.Each(ctx, l.db.Read, func(scanned *sql.Rows) error {
		var a segment.Attempt
		exchange := ""
		err := scanned.Scan(&exchange, &a.Kind, &a.Provider, &a.UpstreamModel, &a.Status, &a.Error, &a.StartMS,
			&a.FirstByteMS, &a.DurationMS)
		if r := of[exchange]; r != nil {
			r.AttemptList = append(r.AttemptList, a)
		}
		return err
	})
}
