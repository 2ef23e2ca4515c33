package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

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
			Adjusted: "b", Cache: "hit faq", Policy: "office/cheap", Plan: []string{"x/1", "y/2"},
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
			UpstreamID: "req_1", Dropped: "a", Adjusted: "b", Cache: "hit faq", Policy: "office/cheap",
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
