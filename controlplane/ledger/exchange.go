package ledger

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// maxDetails is how many bytes of details are kept.
	maxDetails = 4096
	// maxRules is how many limits, and how many targets, are kept.
	maxRules = 16
	// rowsAtOnce is how many rows of an export are in memory.
	rowsAtOnce = 8192
)

// Export calls f with the exchanges that began from a time until another, newest first, some at a time. It is no
// snapshot: what is recorded meanwhile may be among them or not.
func (l requestReader) Export(ctx context.Context, from, until time.Time, f func([]segment.Row) error) error {
	q := segment.Query{From: from.UnixMicro(), To: until.UnixMicro(), Limit: rowsAtOnce}
	for {
		rows, err := l.search(ctx, q)
		if err != nil {
			return fmt.Errorf("reading the request log: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		q.AfterAt, q.AfterID = rows[len(rows)-1].StartedAt, rows[len(rows)-1].ID
		if err := f(rows); err != nil {
			return err
		}
	}
}

// segmentRow returns a row as segments have it.
func (r *row) segmentRow() segment.Row {
	x := segment.Row{ID: r.Id, RequestID: r.RequestId, StartedAt: r.at.UnixMicro(), DurationMS: r.duration.Milliseconds(),
		FirstByteMS: r.FirstByteMs, Key: r.Key, Organization: r.Organization, Project: r.Project, User: r.User,
		Operation: r.Operation, Model: r.Model, Provider: r.Provider, UpstreamModel: r.UpstreamModel,
		Attempts: int64(r.Attempts), Status: int64(r.Status), Requests: r.Requests, Outcome: r.Outcome,
		ErrorCode: r.ErrorCode, RefusedBy: r.RefusedBy, KeyHint: r.KeyHint, Cost: r.CostNanoUsd,
		PriceVersion: r.PriceVersion, Stream: r.Stream, Estimated: r.Estimated, Batch: r.Batch, Priced: r.Priced}
	for k := range usage.Kinds {
		x.Used[k] = *k.In(r.Record)
	}
	for _, a := range r.AttemptList {
		x.AttemptList = append(x.AttemptList, segment.Attempt{Kind: a.GetKind(), Provider: a.GetProvider(),
			UpstreamModel: a.GetUpstreamModel(), Error: a.GetError(), Status: int64(a.GetStatus()), StartMS: a.GetStartMs(),
			FirstByteMS: a.GetFirstByteMs(), DurationMS: a.GetDurationMs(), CoolMS: a.GetCoolMs()})
	}
	if r.Details != nil {
		keptDetails(&x, r.Details)
	}
	return x
}

// keptDetails sets what is kept of details.
func keptDetails(x *segment.Row, d *ledgerv1.Details) {
	x.Dropped, x.Adjusted, x.UpstreamID = longText(d.GetDropped()), longText(d.GetAdjusted()), text(d.GetUpstreamId())
	x.Cache, x.Policy, x.Fees = text(d.GetCache()), text(d.GetPolicy()), min(max(d.GetFeesNanoUsd(), 0), maxCost)
	x.Message = text(d.GetMessage())
	if id := d.GetTraceId(); len(id) == 16 {
		x.TraceID = hex.EncodeToString(id)
	}
	for _, target := range d.GetPlan()[:min(len(d.GetPlan()), maxRules)] {
		x.Plan = append(x.Plan, text(target))
	}
	for _, found := range d.GetGuards()[:min(len(d.GetGuards()), maxRules)] {
		x.Guards = append(x.Guards, text(found))
	}
	for _, rule := range d.GetRules()[:min(len(d.GetRules()), maxRules)] {
		rule = text(rule)
		x.Limits = append(x.Limits, segment.Limit{Rule: rule, Reserved: amountOf(rule, d.GetReserved()),
			Settled: amountOf(rule, d.GetSettled())})
	}
	counts := d.GetCounts()
	for _, c := range counts[:min(len(counts), maxRules)] {
		for k := usage.Kinds; k < usage.All; k++ {
			if c.GetName() == usage.Fields[k].Column {
				x.Used[k] = openai.Count(c.GetN())
			}
		}
	}
}

// amountOf returns the amount that a rule counts, which its name says.
func amountOf(rule string, a *ledgerv1.Amounts) int64 {
	switch _, counted, _ := strings.Cut(rule, " limit "); {
	case counted == "":
		return min(max(a.GetCostNanoUsd(), 0), maxCost)
	case strings.HasPrefix(counted, "input tokens"):
		return max(a.GetInputTokens(), 0)
	case strings.HasPrefix(counted, "output tokens"):
		return max(a.GetOutputTokens(), 0)
	case strings.HasPrefix(counted, "tokens"):
		return max(a.GetTokens(), 0)
	case strings.HasPrefix(counted, "concurrent"):
		return 1 // while it runs
	}
	return max(a.GetRequests(), 0)
}

// longText is text of a header, which is longer than others.
func longText(s string) string {
	all := ""
	for len(s) > sqldb.MaxText && len(all) < maxDetails {
		all, s = all+text(s[:sqldb.MaxText]), s[sqldb.MaxText:]
	}
	return all + text(s)
}

// exchangeOf returns an exchange as lists have it.
func exchangeOf(x *segment.Row) adminapi.Exchange {
	e := adminapi.Exchange{ID: x.ID, RequestID: x.RequestID, Start: time.UnixMicro(x.StartedAt).UTC(),
		DurationMS: x.DurationMS, FirstByteMS: x.FirstByteMS, Key: x.Key, Organization: x.Organization, Project: x.Project,
		User: x.User, Operation: x.Operation, Model: x.Model, Provider: x.Provider, Upstream: x.UpstreamModel,
		Attempts: int(x.Attempts), Stream: x.Stream, Status: int(x.Status), Outcome: x.Outcome, ErrorCode: x.ErrorCode,
		Estimated: x.Estimated, CostUSD: usage.Nano(x.Cost).String(), Priced: x.Priced, PriceVersion: x.PriceVersion,
		Batch: x.Batch, Requests: x.Requests, RefusedBy: x.RefusedBy, KeyHint: x.KeyHint}
	for k, n := range Counts(&e) {
		*n = x.Used[k]
	}
	return e
}

// wholeExchange returns an exchange with its attempts and details.
func wholeExchange(x *segment.Row) (adminapi.Exchange, error) {
	e := exchangeOf(x)
	for i := range x.AttemptList {
		a := &x.AttemptList[i]
		e.AttemptList = append(e.AttemptList, adminapi.Attempt{Kind: a.Kind, Provider: a.Provider, Model: a.UpstreamModel,
			Status: int(a.Status), Error: a.Error, StartMS: a.StartMS, FirstByteMS: a.FirstByteMS, DurationMS: a.DurationMS})
	}
	if len(e.AttemptList) == 0 {
		e.AttemptList = onlyAttemptOf(&e)
	}
	d := adminapi.ExchangeDetail{TraceID: x.TraceID, Plan: x.Plan, Guards: x.Guards, Cache: x.Cache, Policy: x.Policy,
		Message: x.Message, Dropped: x.Dropped, Adjusted: x.Adjusted, UpstreamID: x.UpstreamID}
	for _, limit := range x.Limits {
		d.Limits = append(d.Limits, adminapi.LimitHeld{Rule: limit.Rule, Reserved: heldText(limit.Rule, limit.Reserved),
			Settled: heldText(limit.Rule, limit.Settled)})
	}
	if x.Fees > 0 {
		d.FeesUSD = usage.Nano(x.Fees).String()
	}
	var counts []*ledgerv1.Count
	for k := usage.Kinds; k < usage.All; k++ {
		if x.Used[k] > 0 {
			counts = append(counts, &ledgerv1.Count{Name: usage.Fields[k].Column, N: x.Used[k]})
		}
	}
	err := setCounts(&d, counts)
	if !reflect.ValueOf(d).IsZero() {
		e.Detail = &d
	}
	return e, err
}

// setCounts sets the members that have the names of kinds of usage without a column.
func setCounts(to *adminapi.ExchangeDetail, counts []*ledgerv1.Count) error {
	for k := usage.Kinds; k < usage.All && len(counts) > 0; k++ {
		name := usage.Fields[k].Column
		for _, c := range counts[:min(len(counts), maxRules)] {
			if c.GetName() != name {
				continue
			}
			if err := json.Unmarshal(fmt.Appendf(nil, `{%q:%d}`, name, openai.Count(c.GetN())), to); err != nil {
				return err
			}
		}
	}
	return nil
}

// heldText returns an amount of a rule for people: a number, or dollars.
func heldText(rule string, amount int64) string {
	if strings.Contains(rule, " limit ") {
		return strconv.FormatInt(amount, 10)
	}
	return usage.Nano(amount).String()
}
