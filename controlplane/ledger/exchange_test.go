package ledger_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// exported returns the rows of an export.
func exported(t *testing.T, l *ledger.Ledger, from, until time.Time) (all []segment.Row) {
	t.Helper()
	require.NoError(t, l.Export(context.Background(), from, until, func(some []segment.Row) error {
		all = append(all, some...)
		return nil
	}))
	return all
}

func TestAnExportHasEverythingOfAnExchange(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		full := fellBack("full", noon)
		full.Stream, full.Estimated, full.Batch, full.Requests = true, true, true, 3
		full.RefusedBy, full.Outcome, full.KeyHint, full.ErrorCode = "policy office", "rejected", "abcd", "policy_refused"
		full.Details = &ledgerv1.Details{TraceId: []byte("0123456789abcdef"), UpstreamId: "req_1", Dropped: "a",
			Adjusted: "b", Cache: "hit faq", Policy: "office/cheap", Message: "no", Plan: []string{"x/1", "y/2"},
			Guards: []string{"mask pii in the request: 1"}, FeesNanoUsd: 5,
			Rules:    []string{"key/key_1 limit requests per minute", "budget key/key_1 day"},
			Reserved: &ledgerv1.Amounts{Requests: 1, CostNanoUsd: 1_500_000_001},
			Settled:  &ledgerv1.Amounts{Requests: 1, CostNanoUsd: 7}}
		for k := usage.Kinds; k < usage.All; k++ {
			full.Details.Counts = append(full.Details.Counts, &ledgerv1.Count{Name: usage.Fields[k].Column, N: int64(k)})
		}
		for k := range usage.Kinds {
			*k.In(full) = int64(100 + k)
		}
		keep(t, l, full, rec("before", func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.Add(-time.Hour)) }),
			rec("at the end", func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.Add(time.Minute)) }))
		want := segment.Row{ID: "full", RequestID: full.RequestId, StartedAt: noon.UnixMicro(),
			DurationMS: full.End.AsTime().Sub(noon).Milliseconds(), FirstByteMS: full.FirstByteMs, Key: full.Key,
			Organization: full.Organization, Project: full.Project, User: full.User, Operation: full.Operation,
			Model: full.Model, Provider: full.Provider, UpstreamModel: full.UpstreamModel, Attempts: int64(full.Attempts),
			Status: int64(full.Status), Requests: 3, Outcome: "rejected", ErrorCode: "policy_refused",
			RefusedBy: "policy office", KeyHint: "abcd", Cost: full.CostNanoUsd, Fees: 5, PriceVersion: full.PriceVersion,
			Stream: true, Estimated: true, Batch: true, Priced: full.Priced, TraceID: "30313233343536373839616263646566",
			UpstreamID: "req_1", Dropped: "a", Adjusted: "b", Cache: "hit faq", Policy: "office/cheap", Message: "no",
			Plan: []string{"x/1", "y/2"}, Guards: []string{"mask pii in the request: 1"},
			Limits: []segment.Limit{{Rule: "key/key_1 limit requests per minute", Reserved: 1, Settled: 1},
				{Rule: "budget key/key_1 day", Reserved: 1_500_000_001, Settled: 7}}}
		for k := range usage.All {
			if want.Used[k] = int64(k); k < usage.Kinds {
				want.Used[k] += 100
			}
		}
		for _, a := range full.AttemptList {
			want.AttemptList = append(want.AttemptList, segment.Attempt{Kind: a.Kind, Provider: a.Provider,
				UpstreamModel: a.UpstreamModel, Error: a.Error, Status: int64(a.Status), StartMS: a.StartMs,
				FirstByteMS: a.FirstByteMs, DurationMS: a.DurationMs})
		}
		require.NotEmpty(t, want.AttemptList)
		require.Equal(t, []segment.Row{want}, exported(t, l, noon, noon.Add(time.Minute)))
	})
}

// An export reads the request log in pieces, and has every exchange once.
func TestAnExportHasEveryExchangeOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, r := open(t, dsn), rand.New(rand.NewPCG(1, 1))
		var records []*ledgerv1.Record
		for i := range 9000 {
			records = append(records, random(r, fmt.Sprint(i)))
			if i%2 == 0 { // most at one time
				records[i].Start = timestamppb.New(noon.AddDate(0, 0, -1))
			}
		}
		keep(t, l, records...)
		all, seen, cost := exported(t, l, time.Time{}.AddDate(2000, 0, 0), noon.Add(time.Hour)), map[string]bool{}, int64(0)
		for i := range all {
			seen[all[i].ID] = true
			cost += all[i].Cost
		}
		require.Len(t, all, len(records))
		require.Len(t, seen, len(records))
		_, want := requireSums(t, l)
		require.Equal(t, want, cost)
	})
}

// Segments answer searches of the request log as the tables do.
func TestSegmentsAnswerSearchesAsTheTablesDo(t *testing.T) {
	l := open(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db")))
	r := rand.New(rand.NewPCG(2, 2))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var records []*ledgerv1.Record
	for i := range 900 {
		x := random(r, fmt.Sprint(i))
		if i%9 == 0 {
			x = fellBack(fmt.Sprint(i), noon.Add(-time.Duration(i)*time.Minute))
		}
		if i%5 == 0 {
			x.RefusedBy = pick("guardrail pii/email", "policy office", "key/key_1 limit requests per minute")
			x.Outcome, x.Status = "rejected", 429
		}
		if i%4 == 0 {
			x.Details = &ledgerv1.Details{TraceId: []byte("0123456789abcdef"), FeesNanoUsd: int64(i),
				Guards:   []string{pick("mask pii/email in the request: 2", "observe policy office in the request: 1", "mask pii in x: 1")},
				Rules:    []string{"key/key_1 limit input tokens per minute", "budget key/key_1 day"},
				Reserved: &ledgerv1.Amounts{InputTokens: 9, CostNanoUsd: int64(i) * 1e6},
				Counts:   []*ledgerv1.Count{{Name: "input_image_tokens", N: int64(i)}}}
		}
		records = append(records, x)
	}
	keep(t, l, records...)
	rows := l.SegmentRows(records)
	var segments []segment.Segment
	for some := range slices.Chunk(rows, 200) {
		body, summary, err := segment.NewEncoder().Encode(some)
		require.NoError(t, err)
		segments = append(segments, segment.Segment{Summary: summary,
			Open: func() (*segment.File, error) { return segment.OpenBytes("s", body) }})
	}
	filters := map[string][]string{"user": {"u1", "nobody"}, "key": {"key_1", "key_2"}, "keys": {"key_1,key_3"},
		"organization": {"acme"}, "project": {"web"}, "model": {"gpt", "claude"}, "provider": {"openai", "second"},
		"operation": {"embeddings"}, "outcome": {"served", "error", "finished", "rejected", "cancelled"},
		"rule": {"pii", "pii/email", "policy office", "office"}, "refused_by": {"guardrail", "key/key_1", "policy office"},
		"status": {"200", "429", "418"}, "min_cost_usd": {"0.5", "0.99"}, "min_duration_ms": {"30000"},
		"start": {fmt.Sprint(noon.AddDate(0, 0, -20).Unix())}, "end": {fmt.Sprint(noon.AddDate(0, 0, -10).Unix())}}
	names := slices.Sorted(maps.Keys(filters))
	for range 400 {
		o := adminapi.ListOptions{Filters: map[string]string{}, Limit: 1 + r.IntN(40)}
		for range r.IntN(4) {
			name := pick(names...)
			o.Filters[name] = pick(filters[name]...)
		}
		if r.IntN(10) == 0 {
			o.Query = pick("7", "req_8", "none")
		}
		for pages := 0; pages < 50; pages++ {
			want, err := l.Exchanges(t.Context(), o)
			require.NoError(t, err)
			q, err := ledger.SearchOf(o)
			require.NoError(t, err)
			found, err := segment.Search(segments, q)
			require.NoError(t, err)
			got := []adminapi.Exchange{}
			for i := range found {
				got = append(got, ledger.Listed(&found[i]))
			}
			require.Equal(t, want.Items, got, "%+v", o)
			if o.After = want.Next; o.After == "" {
				break
			}
		}
	}
	for i := range rows {
		want, found, err := l.Exchange(t.Context(), rows[i].ID)
		require.NoError(t, err)
		require.True(t, found)
		got, err := ledger.Whole(&rows[i])
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
