package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// maxDetails is how many bytes of details are kept.
	maxDetails = 4096
	// maxRules is how many limits, and how many targets, are kept.
	maxRules = 16
)

// detailsText returns the details of a record as they are kept, or "": JSON.
func detailsText(d *ledgerv1.Details) string {
	if d == nil {
		return ""
	}
	kept := adminapi.ExchangeDetail{Dropped: longText(d.GetDropped()), Adjusted: longText(d.GetAdjusted()),
		UpstreamID: text(d.GetUpstreamId()), Cache: text(d.GetCache()), Policy: text(d.GetPolicy())}
	if id := d.GetTraceId(); len(id) == 16 {
		kept.TraceID = hex.EncodeToString(id)
	}
	for _, target := range d.GetPlan()[:min(len(d.GetPlan()), maxRules)] {
		kept.Plan = append(kept.Plan, text(target))
	}
	for _, found := range d.GetGuards()[:min(len(d.GetGuards()), maxRules)] {
		kept.Guards = append(kept.Guards, text(found))
	}
	for _, rule := range d.GetRules()[:min(len(d.GetRules()), maxRules)] {
		kept.Limits = append(kept.Limits, adminapi.LimitHeld{Rule: text(rule), Reserved: amountOf(rule, d.GetReserved()),
			Settled: amountOf(rule, d.GetSettled())})
	}
	if fees := d.GetFeesNanoUsd(); fees > 0 {
		kept.FeesUSD = usage.Nano(min(fees, maxCost)).String()
	}
	if setCounts(&kept, d.GetCounts()) != nil {
		return ""
	}
	b, err := json.Marshal(kept)
	if err != nil || len(b) > maxDetails || len(b) == len("{}") {
		return ""
	}
	return string(b)
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

// amountOf returns the amount that a rule counts, which its name tells.
func amountOf(rule string, a *ledgerv1.Amounts) string {
	var n int64
	switch _, counted, _ := strings.Cut(rule, " limit "); {
	case counted == "":
		return usage.Nano(min(max(a.GetCostNanoUsd(), 0), maxCost)).String()
	case strings.HasPrefix(counted, "input tokens"):
		n = a.GetInputTokens()
	case strings.HasPrefix(counted, "output tokens"):
		n = a.GetOutputTokens()
	case strings.HasPrefix(counted, "tokens"):
		n = a.GetTokens()
	case strings.HasPrefix(counted, "concurrent"):
		n = 1 // while it runs
	default:
		n = a.GetRequests()
	}
	return strconv.FormatInt(max(n, 0), 10)
}

// longText is text of a header, which is longer than others.
func longText(s string) string {
	all := ""
	for len(s) > maxString && len(all) < maxDetails {
		all, s = all+text(s[:maxString]), s[maxString:]
	}
	return all + text(s)
}

// detailOf returns the details of an exchange, or nil.
func (l requestReader) detailOf(ctx context.Context, id string) (*adminapi.ExchangeDetail, error) {
	kept := ""
	s := l.db.Statement("SELECT details FROM exchanges")
	s.And("id", "=", id)
	if err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error { return rows.Scan(&kept) }); err != nil || kept == "" {
		return nil, err
	}
	d := &adminapi.ExchangeDetail{}
	if json.Unmarshal([]byte(kept), d) != nil {
		return nil, nil //nolint:nilerr // somebody else wrote it
	}
	return d, nil
}
