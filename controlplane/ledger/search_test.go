package ledger_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/usage"
)

// asked are options with filters, given as name, value, name, value.
func asked(filters ...string) adminapi.ListOptions {
	o := adminapi.ListOptions{Filters: map[string]string{}}
	for i := 0; i < len(filters); i += 2 {
		o.Filters[filters[i]] = filters[i+1]
	}
	return o
}

func idsOf(t *testing.T, l *ledger.Ledger, o adminapi.ListOptions) string {
	t.Helper()
	page, err := l.Exchanges(t.Context(), o)
	require.NoError(t, err)
	ids := make([]string, 0, len(page.Items))
	for _, e := range page.Items {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

func TestTheRequestLogIsSearched(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		at := func(i int) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) {
				r.Start = timestamppb.New(noon.Add(time.Duration(i) * time.Second))
				r.End = timestamppb.New(noon.Add(time.Duration(i)*time.Second + time.Duration(i)*100*time.Millisecond))
			}
		}
		keep(t, l,
			rec("a", at(1)),
			rec("b", at(2), func(r *ledgerv1.Record) { r.Outcome, r.Status, r.CostNanoUsd = "failed", 502, 0 }),
			rec("c", at(3), func(r *ledgerv1.Record) { r.Outcome, r.Status, r.Key = "rejected", 400, "key_2" }),
			rec("d", at(4), func(r *ledgerv1.Record) {
				r.Outcome, r.Status, r.RefusedBy = "rejected", 429, "key/ké_1 limit requests per minute"
			}),
			rec("e", at(5), func(r *ledgerv1.Record) { r.Outcome, r.CostNanoUsd, r.User = "cancelled", 50_000_000, "ann" }),
			rec("f", at(6), func(r *ledgerv1.Record) { r.CostNanoUsd, r.Key, r.Provider = 2_000_000_000, "key_3", "azure" }),
			// What a refused request says of itself is not believed.
			rec("g", at(7), func(r *ledgerv1.Record) { r.RefusedBy = "budget key/key_1 day" }))
		for _, c := range []struct {
			filters []string
			want    string
		}{
			{nil, "g f e d c b a"},
			{[]string{"outcome", "served"}, "f a"},
			{[]string{"outcome", "error"}, "b"},
			{[]string{"outcome", "rejected"}, "g d c"},
			{[]string{"outcome", "cancelled"}, "e"},
			{[]string{"outcome", "finished"}, "f a"},
			{[]string{"status", "429"}, "d"},
			{[]string{"status", "200"}, "g f e a"},
			{[]string{"refused_by", "key/ké_1"}, "d"},
			{[]string{"refused_by", "budget"}, "g"},
			{[]string{"refused_by", "key/k%"}, ""},
			{[]string{"min_cost_usd", "0.05"}, "f e"},
			{[]string{"min_cost_usd", "2.000000001"}, ""},
			{[]string{"min_duration_ms", "500"}, "g f e"},
			{[]string{"keys", "key_2,key_3"}, "f c"},
			{[]string{"key", "key_3", "keys", "key_2"}, ""},
			{[]string{"user", "ann", "outcome", "cancelled"}, "e"},
			{[]string{"user", "ann", "provider", "azure"}, ""},
			{[]string{"organization", "acme", "outcome", "error", "model", "gpt"}, "b"},
			{[]string{"provider", "azure", "start", strconv.FormatInt(noon.Unix()+6, 10)}, "f"},
			{[]string{"provider", "azure", "end", strconv.FormatInt(noon.Unix()+6, 10)}, ""},
		} {
			require.Equal(t, c.want, idsOf(t, l, asked(c.filters...)), c.filters)
		}
		for _, bad := range [][]string{{"status", "x"}, {"status", "1000"}, {"min_cost_usd", "much"},
			{"min_duration_ms", "-1"}, {"color", "red"}} {
			_, err := l.Exchanges(t.Context(), asked(bad...))
			require.Error(t, err, bad)
			_, err = l.Outcomes(t.Context(), asked(bad...))
			require.Error(t, err, bad)
		}
	})
}

func TestASearchLooksAtEverything(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		batch := make([]*ledgerv1.Record, 12_000)
		for i := range batch {
			batch[i] = rec(fmt.Sprintf("%05d", i), func(r *ledgerv1.Record) {
				r.Start = timestamppb.New(noon.Add(-time.Duration(i) * time.Millisecond))
				if i == len(batch)-1 {
					r.CostNanoUsd = 5_000_000_000 // the oldest
				}
			})
		}
		keep(t, l, batch...)
		page, err := l.Exchanges(t.Context(), asked("min_cost_usd", "1"))
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Equal(t, "11999", page.Items[0].ID)
		require.Empty(t, page.Next)
		counted, err := l.Outcomes(t.Context(), asked("min_cost_usd", "1"))
		require.NoError(t, err)
		require.Len(t, counted.Buckets, 1)
		require.EqualValues(t, 1, counted.Buckets[0].Served)
		require.Nil(t, counted.CountedFrom)
		require.Empty(t, idsOf(t, l, asked("user", "nobody", "model", "gpt")))
	})
}

func TestOutcomesThatAreKeptAreThoseThatAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		r := rand.New(rand.NewPCG(1, 1))
		var batch []*ledgerv1.Record
		for i := range 500 {
			batch = append(batch, random(r, fmt.Sprint(i)))
			if r.IntN(10) == 0 {
				batch[i].RefusedBy, batch[i].Outcome = "key/key_1", "rejected"
			}
			batch[i].Start = timestamppb.New(noon.Add(-time.Duration(r.Int64N(int64(20 * time.Hour)))))
		}
		keep(t, l, batch...)
		keep(t, l, batch[:20]...) // again, which changes nothing
		requests := int64(0)
		for _, r := range batch {
			requests += max(r.GetRequests(), 1)
		}
		require.Greater(t, requests, int64(len(batch)))
		for _, width := range []string{"60", "300", "3600", "86400"} {
			kept, err := l.Outcomes(t.Context(), asked("width", width))
			require.NoError(t, err)
			counted, err := l.Outcomes(t.Context(), asked("width", width, "status", "200"))
			require.NoError(t, err)
			for _, status := range []string{"400", "502"} {
				more, err := l.Outcomes(t.Context(), asked("width", width, "status", status))
				require.NoError(t, err)
				counted.Buckets = append(counted.Buckets, more.Buckets...)
			}
			require.Equal(t, sumOf(kept), sumOf(counted))
			require.Equal(t, requests, total(kept.Buckets))
			require.Equal(t, width, strconv.FormatInt(kept.Width, 10))
		}
		// Minutes are kept for two days only.
		old, err := l.Outcomes(t.Context(), asked("width", "60", "start",
			strconv.FormatInt(noon.AddDate(0, 0, -3).Unix(), 10)))
		require.NoError(t, err)
		require.Equal(t, int64(3600), old.Width)
		for _, bad := range [][]string{{"width", "61"}, {"start", "1", "width", "3600"}, {"start", "9", "end", "8"}} {
			_, err := l.Outcomes(t.Context(), asked(bad...))
			require.Error(t, err, bad)
		}
	})
}

// sumOf are the counts by begin.
func sumOf(o adminapi.Outcomes) map[time.Time][4]int64 {
	sums := map[time.Time][4]int64{}
	for _, b := range o.Buckets {
		s := sums[b.Start]
		sums[b.Start] = [4]int64{s[0] + b.Served, s[1] + b.Errors, s[2] + b.Rejected, s[3] + b.Cancelled}
	}
	return sums
}

func total(buckets []adminapi.OutcomeBucket) (n int64) {
	for _, b := range buckets {
		n += b.Served + b.Errors + b.Rejected + b.Cancelled
	}
	return n
}

func TestDetailsHaveEachKindOfUsageWithoutAColumn(t *testing.T) {
	used := usage.Used{}
	for k := range usage.All {
		*used.At(k) = 3
	}
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		keep(t, l, rec("new", func(r *ledgerv1.Record) {
			r.Details = &ledgerv1.Details{Counts: append(used.Details(), &ledgerv1.Count{Name: "dropped", N: 1})}
		}))
		e, _, err := l.Exchange(t.Context(), "new")
		require.NoError(t, err)
		text, err := json.Marshal(e.Detail)
		require.NoError(t, err)
		want := map[string]int{}
		for _, f := range usage.Fields[usage.Kinds:] {
			want[f.Column] = 3
		}
		got := map[string]int{}
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, want, got)
	})
}

func TestDetailsOfAnExchange(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		keep(t, l, rec("old"), rec("new", func(r *ledgerv1.Record) {
			r.Details = &ledgerv1.Details{TraceId: []byte("0123456789abcdef"),
				Rules: []string{"key/k limit tokens per minute", "key/k limit concurrent requests",
					"key/k limit requests per day", "budget organization/acme month"},
				Reserved: &ledgerv1.Amounts{Requests: 1, Tokens: 500, CostNanoUsd: 2_500_000},
				Settled:  &ledgerv1.Amounts{Requests: 1, Tokens: 110, CostNanoUsd: 1000},
				Plan:     []string{"openai/gpt-1", "azure/gpt-1"}, Dropped: "seed", UpstreamId: "up\x00_1",
				FeesNanoUsd: 10_000_000}
		}), rec("huge", func(r *ledgerv1.Record) {
			r.Details = &ledgerv1.Details{Dropped: strings.Repeat("é", 5000), TraceId: []byte("short")}
		}))
		e, found, err := l.Exchange(t.Context(), "new")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, &adminapi.ExchangeDetail{TraceID: "30313233343536373839616263646566",
			Plan: []string{"openai/gpt-1", "azure/gpt-1"}, Dropped: "seed", UpstreamID: "up_1", FeesUSD: "0.01",
			Limits: []adminapi.LimitHeld{
				{Rule: "key/k limit tokens per minute", Reserved: "500", Settled: "110"},
				{Rule: "key/k limit concurrent requests", Reserved: "1", Settled: "1"},
				{Rule: "key/k limit requests per day", Reserved: "1", Settled: "1"},
				{Rule: "budget organization/acme month", Reserved: "0.0025", Settled: "0.000001"}}}, e.Detail)
		for _, id := range []string{"old", "huge"} {
			e, _, err := l.Exchange(t.Context(), id)
			require.NoError(t, err)
			require.Nil(t, e.Detail, id)
		}
	})
}
