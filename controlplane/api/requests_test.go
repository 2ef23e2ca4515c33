package api_test

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/usage"
)

func exchangeOf(id, key string, change ...func(*ledgerv1.Record)) *ledgerv1.Record {
	now := time.Now()
	r := &ledgerv1.Record{Id: id, RequestId: "req_" + id, Start: timestamppb.New(now), End: timestamppb.New(now),
		Key:       key,
		Operation: "chat/completions", Model: "m", Provider: "echo", UpstreamModel: "m", Status: 200, Outcome: "finished",
		Attempts: 1}
	for _, c := range change {
		c(r)
	}
	return r
}

func TestRequestsAreSearchedByTheNameOfAKey(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	keys := map[string]configv1.Object{
		"key_1": &configv1.Key{Name: "key_1", DisplayName: "Billing service"},
		"key_2": &configv1.Key{Name: "key_2", DisplayName: "Search service"},
		"key_3": &configv1.Key{Name: "key_3", DisplayName: "nightly"}}
	b.plane.keys = func() (int64, map[string]configv1.Object) { return 1, keys }
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{exchangeOf("a", "key_1"), exchangeOf("b", "key_2"),
		exchangeOf("c", "key_3")}))
	for query, want := range map[string]int{"key_name=billing": 1, "key_name=SERVICE": 2, "key_name=service+search": 1,
		"key_name=key_3": 1, "key_name=nobody": 0, "key=key_1&key_name=service": 1, "key=key_3&key_name=service": 0,
		"request_id=req_b": 1, "request_id=c": 1, "request_id=nothing": 0, "status=200&outcome=served": 3} {
		a := b.do(t, "GET", "/admin/v1/requests?"+query, "")
		require.Equal(t, 200, a.status, a.body)
		var page adminapi.Page[adminapi.Exchange]
		require.NoError(t, json.Unmarshal([]byte(a.body), &page))
		require.Len(t, page.Items, want, query)
		a = b.do(t, "GET", "/admin/v1/outcomes?width=60&"+query, "")
		require.Equal(t, 200, a.status, a.body)
		var counts adminapi.Outcomes
		require.NoError(t, json.Unmarshal([]byte(a.body), &counts))
		n := int64(0)
		for _, bucket := range counts.Buckets {
			n += bucket.Served
		}
		require.Equal(t, int64(want), n, query)
	}
	for _, query := range []string{"keys=key_1", "status=many", "min_cost_usd=-1", "format=xml", "color=red"} {
		require.Equal(t, 400, b.do(t, "GET", "/admin/v1/requests?"+query, "").status, query)
	}
}

func TestRequestsAreExportedWholeInBothForms(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	const many = 1203 // pages of 500, and the first of 100
	var all []*ledgerv1.Record
	for i := range many {
		all = append(all, exchangeOf(fmt.Sprintf("%05d", i), "key_1", func(r *ledgerv1.Record) { r.User = "=cmd()" }))
	}
	all = append(all, exchangeOf("other", "key_2"))
	require.NoError(t, l.Record(t.Context(), all))
	a := b.do(t, "GET", "/admin/v1/requests?format=csv&key=key_1", "")
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, many+1)
	require.Contains(t, rows[1], "'=cmd()", "no formula")
	for _, ask := range [][]string{{"&format=jsonl"}, {"", "Accept: application/jsonl"}} {
		a = b.do(t, "GET", "/admin/v1/requests?key=key_1"+ask[0], "", ask[1:]...)
		require.Equal(t, "application/jsonl; charset=utf-8", a.header.Get("Content-Type"))
		seen := map[string]bool{}
		lines := bufio.NewScanner(strings.NewReader(a.body))
		for lines.Scan() {
			var e adminapi.Exchange
			require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
			seen[e.ID] = true
		}
		require.Len(t, seen, many)
	}
	a = b.do(t, "GET", "/admin/v1/requests?format=csv&key=nobody", "")
	require.Equal(t, 1, strings.Count(a.body, "\n"), "the names of the columns")
	// The columns are the members, so that none is forgotten.
	text, err := json.Marshal(adminapi.Exchange{FirstByteMS: 1, KeyName: "n", Organization: "o", Project: "p", User: "u",
		ErrorCode:    "c",
		CachedTokens: 1, Estimated: true, PriceVersion: "v", Batch: true, Requests: 1, CacheWriteTokens: 1,
		InputAudioTokens: 1, ReasoningTokens: 1, OutputAudioTokens: 1, Images: 1, RefusedBy: "r", KeyHint: "h"})
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(text, &members))
	for name := range members {
		require.Contains(t, rows[0], name)
	}
	require.Len(t, rows[0], len(members))
}

func TestTheCostOfARequestIsExplained(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	price := &configv1.Price{Input: "2", CachedInput: "0.5", Output: "8", BatchFactor: "0.5",
		ServiceTiers: []*configv1.ServiceTierPrice{{Name: "flex", Factor: "0.5"}}}
	_, err := b.client.Apply(t.Context(), []configv1.Object{&configv1.Provider{Name: "mine", Vendor: "echo"},
		&configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{{Vendors: []string{"echo"},
			Models: []string{"m"}, Price: price}}}}, false)
	require.NoError(t, err)
	version := usage.Version(price)
	priced := func(version string, cost int64, d *ledgerv1.Details) func(*ledgerv1.Record) {
		return func(r *ledgerv1.Record) {
			r.Provider, r.InputTokens, r.CachedTokens, r.OutputTokens = "mine", 1000, 400, 100
			r.Priced, r.PriceVersion, r.CostNanoUsd, r.Details = true, version, cost, d
		}
	}
	const full = 1_200_000 + 200_000 + 800_000 // nano-dollars
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{
		exchangeOf("plain", "k", priced(version, full, nil)),
		exchangeOf("flex", "k", priced(version+"/flex", full/2, nil)),
		exchangeOf("tools", "k", priced(version, full+10_000_000, &ledgerv1.Details{FeesNanoUsd: 10_000_000})),
		exchangeOf("lost", "k", priced(version, full+10_000_000, nil)),
		exchangeOf("changed", "k", priced("abcdef", full, nil)),
		exchangeOf("gone", "k", priced(version, full, nil), func(r *ledgerv1.Record) { r.Provider = "gone" }),
		exchangeOf("unpriced", "k"),
	}))
	lines := func(id string) (string, string) {
		e, err := b.client.Request(t.Context(), id)
		require.NoError(t, err)
		b.do(t, "GET", "/admin/v1/requests/"+id, "") // as the description says
		if e.Cost == nil {
			return "", ""
		}
		var all []string
		for _, line := range e.Cost.Lines {
			all = append(all, strings.TrimSpace(fmt.Sprint(line.Part, " ", line.Count, " ", line.PriceUSD, " ", line.CostUSD)))
		}
		return strings.Join(all, "; "), e.Cost.Problem
	}
	const parts = "cached input 400 0.5 0.0002; input 600 2 0.0012; output 100 8 0.0008"
	for id, want := range map[string][2]string{
		"plain": {parts, ""},
		"flex":  {parts + "; factor 0  -0.0011", ""},
		"tools": {parts + "; tools 0  0.01", ""},
		"lost":  {"", "The parts of the cost are not recorded. By its tokens alone it would be 0.0022 US dollars."},
		"changed": {"",
			"The price of the model has changed since. The cost is of version abcdef of the price."},
		"gone": {"", "The model has no price any more, or its provider is not configured any more. The cost is of version " +
			version + " of the price."},
		"unpriced": {"", ""},
	} {
		got, problem := lines(id)
		require.Equal(t, want, [2]string{got, problem}, id)
	}
	requireError(t, b.do(t, "GET", "/admin/v1/requests/none", ""), 404, "not_found", "none")
}
