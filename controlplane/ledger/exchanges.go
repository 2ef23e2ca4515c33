package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
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
	return openai.BadRequest("after", openai.CodeInvalidValue,
		"Invalid value for 'after': it must be the 'next' of an earlier answer.")
}

// AppendAudit keeps entries of the audit log, each once: one whose id is known is ignored.
func (l *Ledger) AppendAudit(ctx context.Context, entries []adminapi.AuditEntry) error {
	const columns = "id, at, actor, role, address, action, kind, name, diff, request_id"
	sorted := slices.SortedFunc(slices.Values(entries),
		func(a, b adminapi.AuditEntry) int { return strings.Compare(a.ID, b.ID) })
	err := l.transact(ctx, func(tx *sql.Tx) error {
		for chunk := range slices.Chunk(sorted, rowsAtOnce) {
			s := l.statement("INSERT INTO audit (", columns, ") VALUES ")
			for i, e := range chunk {
				diff := strings.ReplaceAll(strings.ToValidUTF8(e.Diff, "\uFFFD"), "\x00", "")
				s.row(i == 0, []any{text(e.ID), e.At.UnixMicro(), text(e.Actor), text(e.Role), text(e.Address), text(e.Action),
					text(e.Kind), text(e.Name), diff, text(e.RequestID)})
			}
			s.add(" ON CONFLICT (id) DO NOTHING")
			if _, err := s.exec(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keeping %d entries of the audit log: %w", len(entries), err)
	}
	return nil
}

// Audit returns a part of the audit log, newest first, that is, by descending id. The filters are actor, kind, name,
// action, start and end (Unix seconds). It returns an error of OpenAI's where the options are wrong.
func (l *Ledger) Audit(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) {
	page := adminapi.Page[adminapi.AuditEntry]{Items: []adminapi.AuditEntry{}}
	s := l.statement("SELECT id, at, actor, role, address, action, kind, name, diff, request_id FROM audit")
	if err := filter(s, o, [][2]string{{"actor", "actor"}, {"kind", "kind"}, {"name", "name"},
		{"action", "action"}}); err != nil {
		return page, err
	}
	if o.After != "" {
		if o.After != text(o.After) {
			return page, errAfter()
		}
		s.and("id", "<", o.After)
	}
	limit := items(o.Limit)
	s.add(" ORDER BY id DESC LIMIT ", s.arg(limit+1))
	err := s.each(ctx, l.read, func(rows *sql.Rows) error {
		var e adminapi.AuditEntry
		var at int64
		err := rows.Scan(&e.ID, &at, &e.Actor, &e.Role, &e.Address, &e.Action, &e.Kind, &e.Name, &e.Diff, &e.RequestID)
		e.At = time.UnixMicro(at).UTC()
		page.Items = append(page.Items, e)
		return err
	})
	if err != nil {
		return page, fmt.Errorf("reading the audit log: %w", err)
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID
	}
	return page, nil
}
