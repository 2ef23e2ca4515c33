package ledger

import (
	"database/sql"
	"net/url"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	usualItems = 50
	maxItems   = 500
)

// filter adds the conditions of options, with start and end as Unix seconds. It returns an error of OpenAI's where one
// is unknown.
func filter(s *statement, o adminapi.ListOptions, names [][2]string) error {
	r := reader{values: url.Values{}, known: map[string]bool{}}
	for name, value := range o.Filters {
		r.values.Set(name, value)
	}
	for _, n := range names {
		s.equal(n[1], text(r.one(n[0])))
	}
	if start := r.unix("start", 0); start > 0 {
		s.and("at", ">=", start*1e6)
	}
	if end := r.unix("end", 0); end > 0 {
		s.and("at", "<", end*1e6)
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

var selectExchanges = "SELECT id, request_id, at, duration, first_byte_ms, api_key, organization, project, user_id, operation, model, " +
	"provider, upstream_model, attempts, stream, status, outcome, error_code, " + strings.Join(usage.Columns(), ", ") +
	", estimated, batch, cost, priced, price_version, requests, refused_by, key_hint FROM exchanges"

func scanExchange(rows *sql.Rows) (adminapi.Exchange, error) {
	var e adminapi.Exchange
	var at int64
	var cost usage.Nano
	err := rows.Scan(&e.ID, &e.RequestID, &at, &e.DurationMS, &e.FirstByteMS, &e.Key, &e.Organization, &e.Project,
		&e.User, &e.Operation, &e.Model, &e.Provider,
		&e.Upstream, &e.Attempts, &e.Stream, &e.Status, &e.Outcome, &e.ErrorCode, &e.InputTokens, &e.CachedTokens,
		&e.CacheWriteTokens, &e.InputAudioTokens, &e.OutputTokens, &e.ReasoningTokens, &e.OutputAudioTokens, &e.Images,
		&e.Estimated, &e.Batch, &cost, &e.Priced, &e.PriceVersion, &e.Requests, &e.RefusedBy, &e.KeyHint)
	e.Start, e.CostUSD = time.UnixMicro(at).UTC(), cost.String()
	return e, err
}

func errAfter() error {
	return openai.CodeInvalidValue.On("after",
		"Invalid value for 'after': it must be the 'next' of an earlier answer.")
}
