package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// searched is how many exchanges a search looks at for one page, and a count counts. Of those that an index leads to
	// searchedApart are read, because they lie apart in the table.
	searched      = 10_000
	searchedApart = 3_000
	// inUnserved is the condition of the index exchanges_unserved, word for word: SQLite compares the text.
	inUnserved = "(outcome <> 'finished' OR status >= 400)"
)

// exchangeFilters are the filters that compare a column. A search follows the index of one, and looks whether what it
// finds is as the others say. So those that choose fewest come first.
var exchangeFilters = [][2]string{{"user", "user_id"}, {"key", "api_key"}, {"organization", "organization"},
	{"model", "model"}, {"provider", "provider"}, {"project", "project"}, {"operation", "operation"}}

// A search is a query of the request log.
type search struct {
	index      func(*sqldb.Statement)   // conditions that an index has; nil: none but the time
	rest       []func(*sqldb.Statement) // all others
	table      bool                     // a condition needs a column that exchanges_unserved lacks
	start, end int64                    // microseconds; 0: not given
	at         int64                    // with id: only what comes after this exchange; 0: not given
	id         string
	most       int // how many exchanges are looked at; 0: as many as a page may
}

// searchOf reads the options of a search, which follows the index of first if that is given. It returns an error of
// OpenAI's if they are wrong.
func searchOf(o adminapi.ListOptions, postgres bool, first func(*sqldb.Statement)) (*search, error) {
	r := newReader(o)
	x := &search{start: r.unix("start", 0) * 1e6, end: r.unix("end", 0) * 1e6, index: first}
	if o.Query != "" {
		x.table = true
		x.add(true, func(s *sqldb.Statement) {
			s.Condition("(id = " + s.Arg(text(o.Query)) + " OR request_id = " + s.Arg(text(o.Query)) + ")")
		})
	}
	x.equals(r, exchangeFilters[:2], true, postgres)
	if keys := r.one("keys"); keys != "" {
		x.table = true
		x.add(false, func(s *sqldb.Statement) { s.Among(without("api_key", postgres), strings.Split(text(keys), ",")) })
	}
	x.foundBy(text(r.one("rule")))
	x.outcome(r.one("outcome"))
	x.refusedBy(text(r.one("refused_by")))
	x.numbers(r)
	x.equals(r, exchangeFilters[2:5], true, postgres)
	x.equals(r, exchangeFilters[5:], false, postgres)
	r.unknown()
	if o.After != "" {
		var ok bool
		if x.at, x.id, ok = decodeAfter(o.After); !ok {
			r.fail(errAfter())
		}
	}
	return x, r.err
}

func newReader(o adminapi.ListOptions) *reader {
	r := &reader{values: url.Values{}, known: map[string]bool{}}
	for name, value := range o.Filters {
		r.values.Set(name, value)
	}
	return r
}

// add adds a condition. The first that an index has decides which index.
func (x *search) add(indexed bool, condition func(*sqldb.Statement)) {
	if indexed && x.index == nil {
		x.index = condition
		return
	}
	x.rest = append(x.rest, condition)
}

// equals adds the filters that are given.
func (x *search) equals(r *reader, filters [][2]string, indexed, postgres bool) {
	for _, f := range filters {
		if value := text(r.one(f[0])); value != "" {
			x.equal(f[1], value, indexed, postgres)
		}
	}
}

// equal adds the condition that a column has a value.
func (x *search) equal(column, value string, indexed, postgres bool) {
	first := indexed && x.index == nil
	x.table = true
	x.add(indexed, func(s *sqldb.Statement) {
		if column == "user_id" && first {
			s.Condition("user_id <> ''") // as the index has it
		}
		if first {
			s.And(column, "=", value)
			return
		}
		s.And(without(column, postgres), "=", value)
	})
}

// without names a column so that SQLite does not use its index, and follows the one that the search has chosen.
// PostgreSQL knows how often values occur.
func without(column string, postgres bool) string {
	if postgres {
		return column
	}
	return "+" + column
}

// outcome adds the condition of an outcome, or of a class.
func (x *search) outcome(outcome string) {
	if outcome == "" {
		return
	}
	if outcome != "finished" && outcome != adminapi.OutcomeServed {
		x.add(true, func(s *sqldb.Statement) { s.Condition(inUnserved) })
	}
	x.add(false, func(s *sqldb.Statement) {
		switch outcome {
		case adminapi.OutcomeServed:
			s.Condition(isServed)
		case adminapi.OutcomeError:
			s.Condition(isError)
		default:
			s.And("outcome", "=", text(outcome))
		}
	})
}

// refusedBy adds the condition that what refused a request begins so.
func (x *search) refusedBy(begin string) {
	if begin == "" {
		return
	}
	x.add(true, func(s *sqldb.Statement) { s.Condition(inUnserved) })
	x.add(false, func(s *sqldb.Statement) {
		s.Condition("refused_by <> ''")
		s.Condition(s.Begins("refused_by", begin))
	})
}

// numbers adds the conditions on a status, a cost and a duration.
func (x *search) numbers(r *reader) {
	if status := r.number("status", -1, 0, 999); status >= 0 {
		if status >= 400 {
			x.add(true, func(s *sqldb.Statement) { s.Condition(inUnserved) })
		}
		x.add(false, func(s *sqldb.Statement) { s.And("status", "=", status) })
	}
	if least := r.one("min_cost_usd"); least != "" {
		cost, err := usage.ParseUSD(least)
		if err != nil {
			r.fail(openai.CodeInvalidValue.On("min_cost_usd",
				"Invalid value for 'min_cost_usd': it must be an amount of US dollars, such as 0.05."))
		}
		x.table = true
		x.add(false, func(s *sqldb.Statement) { s.And("cost", ">=", int64(cost)) })
	}
	if least := r.number("min_duration_ms", 0, 0, maxMilliseconds); least > 0 {
		x.table = true
		x.add(false, func(s *sqldb.Statement) { s.And("duration", ">=", least) })
	}
}

// where adds the conditions that an index serves: the chosen one's, and the time.
func (x *search) where(s *sqldb.Statement) {
	if x.index != nil {
		x.index(s)
	}
	if x.start > 0 {
		s.And("at", ">=", x.start)
	}
	if x.end > 0 {
		s.And("at", "<", x.end)
	}
	if x.at > 0 {
		s.And("at", "<=", x.at)
	}
}

// all adds all conditions, and that nothing is older than a bound; 0: none.
func (x *search) all(s *sqldb.Statement, bound int64) {
	x.where(s)
	for _, c := range x.rest {
		c(s)
	}
	if x.at > 0 {
		s.Condition("(at, id) < (" + s.Arg(x.at) + ", " + s.Arg(x.id) + ")")
	}
	if bound > 0 {
		s.And("at", ">=", bound)
	}
}

// bound returns the time, in microseconds, of the oldest exchange that is looked at; 0 if all are. It reads nothing
// but the index.
func (l requestReader) bound(ctx context.Context, x *search) (at int64, err error) {
	s := l.db.Statement("SELECT at FROM exchanges")
	x.where(s)
	most := searched
	if x.index != nil && x.table {
		most = searchedApart
	}
	most = cmp.Or(x.most, most)
	s.Add(" ORDER BY at DESC LIMIT 1 OFFSET ", s.Arg(most))
	err = s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&at) })
	return at, err
}

// Exchanges returns a part of the request log, newest first, as [adminapi.Client.Requests] says; the query is the id
// of an exchange or of its request, and keys are ids of keys, with commas between them. It returns an error of
// OpenAI's if the options are wrong.
func (l requestReader) Exchanges(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.Exchange],
	error) {
	page := adminapi.Page[adminapi.Exchange]{Items: []adminapi.Exchange{}}
	x, err := searchOf(o, l.db.Postgres, nil)
	if err != nil {
		return page, err
	}
	var bound int64
	if len(x.rest) > 0 {
		if bound, err = l.bound(ctx, x); err != nil {
			return page, fmt.Errorf("reading the request log: %w", err)
		}
	}
	s := l.db.Statement(selectExchanges)
	x.all(s, bound)
	limit := items(o.Limit)
	s.Add(" ORDER BY at DESC, id DESC LIMIT ", s.Arg(limit+1))
	found, err := sqldb.All(ctx, s, l.db.Read, intoExchange)
	if err != nil {
		return page, fmt.Errorf("reading the request log: %w", err)
	}
	page.Items = append(page.Items, found...)
	switch {
	case len(page.Items) > limit:
		page.Items = page.Items[:limit]
		last := page.Items[limit-1]
		page.Next = encodeAfter(last.Start.UnixMicro(), last.ID)
	case bound > 0:
		to := time.UnixMicro(bound).UTC()
		page.Next, page.SearchedTo = encodeAfter(bound, ""), &to
	}
	return page, nil
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
	r := newReader(o)
	for _, n := range names {
		s.Equal(n[1], text(r.one(n[0])))
	}
	if start := r.unix("start", 0); start > 0 {
		s.And("at", ">=", start*1e6)
	}
	if end := r.unix("end", 0); end > 0 {
		s.And("at", "<", end*1e6)
	}
	r.unknown()
	return r.err
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

// intoExchange returns where the columns of selectExchanges go.
func intoExchange(e *adminapi.Exchange) []any {
	into := append(make([]any, 0, 40), &e.ID, &e.RequestID, micros(&e.Start), &e.DurationMS, &e.FirstByteMS, &e.Key,
		&e.Organization, &e.Project, &e.User, &e.Operation, &e.Model, &e.Provider, &e.Upstream, &e.Attempts, &e.Stream,
		&e.Status, &e.Outcome, &e.ErrorCode)
	for _, n := range Counts(e) {
		into = append(into, n)
	}
	return append(into, &e.Estimated, &e.Batch, dollars{&e.CostUSD}, &e.Priced, &e.PriceVersion, &e.Requests,
		&e.RefusedBy, &e.KeyHint)
}

// Counts returns the amounts of an exchange, by the kinds of usage with a column.
func Counts(e *adminapi.Exchange) [usage.Kinds]*int64 {
	return [...]*int64{usage.InputTokens: &e.InputTokens, usage.CachedTokens: &e.CachedTokens,
		usage.CacheWriteTokens: &e.CacheWriteTokens, usage.InputAudioTokens: &e.InputAudioTokens,
		usage.OutputTokens: &e.OutputTokens, usage.ReasoningTokens: &e.ReasoningTokens,
		usage.OutputAudioTokens: &e.OutputAudioTokens, usage.Images: &e.Images}
}

// dollars takes a column with an amount of money as its text.
type dollars struct{ to *string }

// Scan implements [sql.Scanner].
func (d dollars) Scan(v any) error {
	n, ok := v.(int64)
	*d.to = usage.Nano(n).String()
	if !ok {
		return fmt.Errorf("an amount is a number, not a %T", v)
	}
	return nil
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

var selectExchanges = "SELECT id, request_id, at, duration, first_byte_ms, api_key, organization, project, user_id, operation, model, " +
	"provider, upstream_model, attempts, stream, status, outcome, error_code, " + strings.Join(usage.Columns(), ", ") +
	", estimated, batch, cost, priced, price_version, requests, refused_by, key_hint FROM exchanges"
