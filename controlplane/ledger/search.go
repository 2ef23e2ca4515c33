package ledger

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
	"github.com/modelgate/modelgate/internal/usage"
)

// exchangeFilters are the names of the filters that compare a column.
var exchangeFilters = []string{"user", "key", "organization", "model", "provider", "project", "operation",
	"key_hint"}

// Exchanges returns a part of the request log, newest first, as [adminapi.Client.Requests] says; the query is the id
// of an exchange or of its request, and keys are ids of keys, with commas between them. It returns an error of
// OpenAI's if the options are wrong.
func (l requestReader) Exchanges(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.Exchange],
	error) {
	page := adminapi.Page[adminapi.Exchange]{Items: []adminapi.Exchange{}}
	q, err := queryOf(o)
	if err != nil {
		return page, err
	}
	limit := q.Limit
	q.Limit++
	err = l.folded(ctx)
	var rows []segment.Row
	if known, _ := tallies.OfFilters(o.Filters); err == nil && o.Query == "" {
		rows, err = l.tallies().Search(ctx, known, q)
	} else if err == nil {
		rows, err = l.store.Search(ctx, q)
	}
	if err != nil {
		return page, fmt.Errorf("reading the request log: %w", err)
	}
	for i := range rows[:min(len(rows), limit)] {
		page.Items = append(page.Items, exchangeOf(&rows[i]))
	}
	if len(rows) > limit {
		page.Next = encodeAfter(rows[limit-1].StartedAt, rows[limit-1].ID)
	}
	return page, nil
}

// Walk calls do with some columns of each exchange that options select, in no order. It calls begin first, and again
// if it begins anew. It returns an error of OpenAI's if the options are wrong.
func (l requestReader) Walk(ctx context.Context, o adminapi.ListOptions, columns []segment.Column, begin func(),
	do func(*segment.Row)) error {
	q, err := queryOf(o)
	if err != nil {
		return err
	}
	q.Columns, q.Limit = columns, 0
	return doing("reading the request log", l.each(ctx, q, begin, do))
}

func encodeAfter(at int64, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at, 10) + "." + id))
}

func decodeAfter(after string) (at int64, id string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(after)
	number, id, found := strings.Cut(string(b), ".")
	at, numeric := strconv.ParseInt(number, 10, 64)
	return at, id, err == nil && found && numeric == nil && at > 0 && id == text(id)
}

func errAfter() error {
	return openai.CodeInvalidValue.On("after",
		"Invalid value for 'after': it must be the 'next' of an earlier answer.")
}

// filter adds the conditions of options, with start and end as Unix seconds. It returns an error of OpenAI's if one
// is unknown.
func filter(s *sqldb.Statement, o adminapi.ListOptions, names [][2]string) error {
	r := params.OfOptions(o)
	for _, n := range names {
		s.Equal(n[1], text(r.One(n[0])))
	}
	if start := r.Unix("start", 0); start > 0 {
		s.And("at", ">=", start*1e6)
	}
	if end := r.Unix("end", 0); end > 0 {
		s.And("at", "<", end*1e6)
	}
	r.Unknown()
	return r.Err
}

func items(limit int) int {
	if limit <= 0 {
		return usualItems
	}
	return min(limit, maxItems)
}

const (
	usualItems = 50
	maxItems   = 500
)

// Counts returns the amounts of an exchange, by the kinds of usage with a column.
func Counts(e *adminapi.Exchange) [usage.Kinds]*int64 {
	return [...]*int64{usage.InputTokens: &e.InputTokens, usage.CachedTokens: &e.CachedTokens,
		usage.CacheWriteTokens: &e.CacheWriteTokens, usage.InputAudioTokens: &e.InputAudioTokens,
		usage.OutputTokens: &e.OutputTokens, usage.ReasoningTokens: &e.ReasoningTokens,
		usage.OutputAudioTokens: &e.OutputAudioTokens, usage.Images: &e.Images}
}

// micros takes a column with a time in microseconds.
func micros(to *time.Time) sqldb.Time { return sqldb.Time{To: to, Unit: time.Microsecond} }

// doing adds to an error what was done; nil stays nil.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// listColumns are the columns of a list of exchanges.
func listColumns() []segment.Column {
	var all []segment.Column
	for _, d := range segment.Describe() {
		switch d.ID {
		case segment.TraceID, segment.UpstreamID, segment.Dropped, segment.Adjusted, segment.Cache, segment.Policy,
			segment.Message, segment.Fees:
		default:
			if d.ID < segment.Plan || d.ID > segment.AttemptList+9 {
				all = append(all, d.ID)
			}
		}
	}
	return all
}

// columnOf returns the column of segments that a filter or a field of groups names.
func columnOf(name string) segment.Column {
	switch name {
	case "organization", "organization_id":
		return segment.Organization
	case "project", "project_id":
		return segment.Project
	case "key", "api_key_id":
		return segment.Key
	case "user", "user_id":
		return segment.User
	case "provider":
		return segment.Provider
	case "operation":
		return segment.Operation
	case "key_hint":
		return segment.KeyHint
	}
	return segment.Model // or line_item
}

// queryOf reads the options of a search of segments. It returns an error of OpenAI's if they are wrong.
func queryOf(o adminapi.ListOptions) (segment.Query, error) {
	r := params.OfOptions(o)
	q := segment.Query{From: r.Unix("start", 0) * 1e6, To: r.Unix("end", 0) * 1e6, Limit: items(o.Limit),
		Columns: listColumns()}
	var all []segment.Condition
	add := func(c segment.Condition) { all = append(all, c) }
	if o.Query != "" {
		add(segment.Any(segment.Equal(segment.ID, text(o.Query)), segment.Equal(segment.RequestID, text(o.Query))))
	}
	for _, f := range exchangeFilters {
		if value := text(r.One(f)); value != "" {
			add(segment.Equal(columnOf(f), value))
		}
	}
	if keys := r.One("keys"); keys != "" {
		add(segment.Equal(segment.Key, strings.Split(keys, ",")...))
	}
	if batch := text(r.One("batch")); batch != "" {
		add(ofBatch(batch))
	}
	if rule := text(r.One("rule")); rule != "" {
		add(hasFound(foundByOf(rule)))
	}
	switch outcome := r.One("outcome"); outcome {
	case "":
	case adminapi.OutcomeServed:
		add(segment.All(unrefused(), segment.Not(hasFailed()),
			segment.Not(segment.Equal(segment.Outcome, "rejected", "cancelled"))))
	case adminapi.OutcomeError:
		add(segment.All(unrefused(), hasFailed()))
	default:
		add(segment.Equal(segment.Outcome, text(outcome)))
	}
	if begin := text(r.One("refused_by")); begin != "" {
		add(segment.Begins(segment.RefusedBy, begin))
	}
	all = append(all, numbersOf(r)...)
	r.Unknown()
	if o.After != "" {
		var ok bool
		if q.AfterAt, q.AfterID, ok = decodeAfter(o.After); !ok {
			r.Fail(errAfter())
		}
	}
	if len(all) > 0 {
		q.Where = segment.All(all...)
	}
	return q, r.Err
}

// numbersOf returns the conditions on a status, a cost and a duration.
func numbersOf(r *params.Reader) (all []segment.Condition) {
	if status := r.Number("status", -1, 0, 999); status >= 0 {
		all = append(all, segment.Between(segment.Status, status, status))
	}
	if least := r.One("min_cost_usd"); least != "" {
		cost, err := usage.ParseUSD(least)
		if err != nil {
			r.Fail(errMinCost())
		}
		all = append(all, segment.Between(segment.Cost, int64(cost), math.MaxInt64))
	}
	if least := r.Number("min_duration_ms", 0, 0, maxMilliseconds); least > 0 {
		all = append(all, segment.Between(segment.DurationMS, least, math.MaxInt64))
	}
	return all
}

func errMinCost() error {
	return openai.CodeInvalidValue.On("min_cost_usd",
		"Invalid value for 'min_cost_usd': it must be an amount of US dollars, such as 0.05.")
}

// ofBatch is the condition of an answered line of a batch, whose id begins with the batch's, or of a vendor's batch.
func ofBatch(id string) segment.Condition {
	return segment.Any(segment.Equal(segment.ID, id), segment.Begins(segment.ID, id+"/"))
}

// unrefused is the condition of an exchange that the gateway did not refuse.
func unrefused() segment.Condition { return segment.Equal(segment.RefusedBy, "") }

// hasFailed is what [adminapi.Exchange.Failed] says.
func hasFailed() segment.Condition {
	return segment.Any(segment.Between(segment.Status, http.StatusInternalServerError, math.MaxInt64),
		segment.Equal(segment.Outcome, "failed", "truncated", "interrupted", "gateway"))
}

// hasFound is the condition that a rule has found something.
func hasFound(by foundBy) segment.Condition {
	refused := by.kind + " " + by.name
	var begins []string
	for _, action := range findingActions() {
		begins = append(begins, action+" "+by.text()+"/", action+" "+by.text()+" in the ")
	}
	return segment.Any(segment.Equal(segment.RefusedBy, refused), segment.Begins(segment.RefusedBy, refused+"/"),
		segment.Begins(segment.Guards, begins...))
}
