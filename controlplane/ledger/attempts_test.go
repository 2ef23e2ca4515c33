package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// fellBack is an exchange whose first attempt reached nobody.
func fellBack(id string, at time.Time) *ledgerv1.Record {
	return rec(id, func(r *ledgerv1.Record) {
		r.Start, r.End = timestamppb.New(at), timestamppb.New(at.Add(900*time.Millisecond))
		r.Provider, r.Attempts = "second", 2
		r.AttemptList = []*ledgerv1.Attempt{
			{Kind: "first", Provider: "dead", UpstreamModel: "m1", Error: "connection refused", StartMs: 2, DurationMs: 1},
			{Kind: "fallback", Provider: "second", UpstreamModel: "m2", Status: 200, StartMs: 10, FirstByteMs: 400,
				DurationMs: 890},
		}
	})
}

func TestAttemptsAreKeptWithTheirExchange(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		ctx := t.Context()
		require.NoError(t, l.Record(ctx, []*ledgerv1.Record{fellBack("a", noon), rec("b")}))
		require.NoError(t, l.Record(ctx, []*ledgerv1.Record{fellBack("a", noon)}), "it is sent again")

		e, found, err := l.Exchange(ctx, "a")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, []adminapi.Attempt{
			{Kind: "first", Provider: "dead", Model: "m1", Error: "connection refused", StartMS: 2, DurationMS: 1},
			{Kind: "fallback", Provider: "second", Model: "m2", Status: 200, StartMS: 10, FirstByteMS: 400, DurationMS: 890},
		}, e.AttemptList)
		e, _, err = l.Exchange(ctx, "b")
		require.NoError(t, err)
		require.Len(t, e.AttemptList, 1, "the exchange tells of its only attempt")
		require.Equal(t, e.Provider, e.AttemptList[0].Provider)
		_, found, err = l.Exchange(ctx, "c")
		require.NoError(t, err)
		require.False(t, found)

		dead := healthOf(t, l, "dead")
		require.Equal(t, int64(1), dead.Last15Minutes.Attempts, "counted once")
		require.Equal(t, int64(1), dead.Last24Hours.Failed)
		require.Equal(t, "connection refused", dead.LastError)
		require.Equal(t, adminapi.ProviderFailing, dead.State)
		second := healthOf(t, l, "second")
		require.Equal(t, adminapi.ProviderOK, second.State)
		require.InDelta(t, 400, second.Last15Minutes.FirstByte.P50, 240)
	})
}

func healthOf(t *testing.T, l *ledger.Ledger, provider string) adminapi.ProviderHealth {
	t.Helper()
	all, err := l.Health(t.Context())
	require.NoError(t, err)
	for _, h := range all {
		if h.Provider == provider {
			return h
		}
	}
	return adminapi.ProviderHealth{State: adminapi.ProviderUnused}
}

func TestHealthFollowsTheWindows(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		ctx, now := t.Context(), noon
		l.SetNow(func() time.Time { return now })
		var some []*ledgerv1.Record
		for i := range 20 {
			some = append(some, rec(fmt.Sprint("r", i), func(r *ledgerv1.Record) {
				r.Provider, r.Attempts, r.Start, r.End = "p", 1, timestamppb.New(now), timestamppb.New(now.Add(time.Second))
				if i%2 == 0 {
					r.Outcome, r.Status, r.ErrorCode = "failed", 429, "rate_limit_exceeded"
					r.AttemptList = []*ledgerv1.Attempt{{Kind: "first", Provider: "p", Status: 429, Error: "status 429",
						DurationMs: 20, CoolMs: 5000}}
				}
			}))
		}
		// Neither is of the provider's health.
		some = append(some, rec("batch", func(r *ledgerv1.Record) { r.Provider, r.Batch, r.Requests = "p", true, 1000 }),
			rec("cut", func(r *ledgerv1.Record) { r.Provider, r.Outcome = "p", "interrupted" }))
		require.NoError(t, l.Record(ctx, some))
		h := healthOf(t, l, "p")
		require.Equal(t, int64(20), h.Last15Minutes.Attempts)
		require.Equal(t, int64(10), h.Last15Minutes.Failed)
		require.Equal(t, int64(10), h.Last15Minutes.RateLimited)
		require.InDelta(t, 0.5, h.Last15Minutes.SuccessRate, 0)
		require.Equal(t, adminapi.ProviderCooling, h.State)
		require.WithinDuration(t, now.Add(5020*time.Millisecond), *h.CoolingUntil, 0)

		now = noon.Add(6 * time.Second)
		require.Equal(t, adminapi.ProviderDegraded, healthOf(t, l, "p").State)
		now = noon.Add(16 * time.Minute)
		h = healthOf(t, l, "p")
		require.Zero(t, h.Last15Minutes)
		require.Equal(t, int64(20), h.Last24Hours.Attempts)
		now = noon.Add(26 * time.Hour)
		require.Equal(t, adminapi.ProviderUnused, healthOf(t, l, "p").State)
	})
}

func TestRefusedRequestsAreInNoSum(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		ctx := context.Background()
		require.NoError(t, l.Record(ctx, []*ledgerv1.Record{rec("served"), rec("refused", func(r *ledgerv1.Record) {
			r.Outcome, r.Status, r.RefusedBy, r.Provider = "rejected", 429, "key/key_1 limit requests per minute", ""
			r.Attempts, r.CostNanoUsd, r.InputTokens, r.OutputTokens = 0, 0, 0, 0
		})}))
		page, err := l.Exchanges(ctx, adminapi.ListOptions{})
		require.NoError(t, err)
		require.Len(t, page.Items, 2, "the request log has it")
		sum, err := l.Summary(ctx, adminapi.ListOptions{Filters: map[string]string{"end": fmt.Sprint(noon.Unix() + 1)}})
		require.NoError(t, err)
		require.Equal(t, int64(1), sum.Requests)
		e, _, err := l.Exchange(ctx, "refused")
		require.NoError(t, err)
		require.Equal(t, "key/key_1 limit requests per minute", e.RefusedBy)
		require.Empty(t, e.AttemptList)
	})
}

func TestRefusedRequestsArePrunedEarlyAndBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		records := []*ledgerv1.Record{rec("served", func(r *ledgerv1.Record) {
			r.Start = timestamppb.New(noon.AddDate(0, 0, -20))
		})}
		for i := range 30 {
			records = append(records, rec(fmt.Sprint("refused", i), func(r *ledgerv1.Record) {
				r.Outcome, r.RefusedBy = "rejected", "unknown key"
				r.Start = timestamppb.New(noon.Add(-time.Duration(i) * 12 * time.Hour))
			}))
		}
		keep(t, l, records...)
		left := func(k ledger.Retention) (refused int) {
			_, err := l.Prune(t.Context(), k)
			require.NoError(t, err)
			page, err := l.Exchanges(t.Context(), adminapi.ListOptions{Limit: 100})
			require.NoError(t, err)
			for _, e := range page.Items {
				if e.RefusedBy != "" {
					refused++
				}
			}
			require.Equal(t, len(page.Items)-1, refused, "what was served stays")
			return refused
		}
		require.Equal(t, 15, left(ledger.Retention{}), "of seven days")
		require.Equal(t, 4, left(ledger.Retention{RefusedRows: 4}), "the newest")
	})
}

// TestAnErrorIsTheSameEverywhere holds that the sums count the exchanges that say that they failed.
func TestAnErrorIsTheSameEverywhere(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		var records []*ledgerv1.Record
		for _, outcome := range []string{"finished", "rejected", "failed", "truncated", "cancelled", "gateway",
			"interrupted"} {
			for _, status := range []uint32{0, 200, 400, 429, 502} {
				records = append(records, rec(fmt.Sprint(outcome, status), func(r *ledgerv1.Record) {
					r.Outcome, r.Status = outcome, status
				}))
			}
		}
		keep(t, l, records...)
		requireSums(t, l)
		page, err := l.Exchanges(t.Context(), adminapi.ListOptions{Limit: 100})
		require.NoError(t, err)
		failed := int64(0)
		for _, e := range page.Items {
			if e.Failed() {
				failed++
			}
		}
		sum, err := l.Summary(t.Context(), adminapi.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, failed, sum.Errors)
		require.Equal(t, int64(4*5+3), failed)
	})
}

// TestABatchOfRefusedRequestsOnly has no row for most sums.
func TestABatchOfRefusedRequestsOnly(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		served := func() int64 {
			all, _, err := l.Failures(t.Context(), noon.Add(-time.Hour), ledger.Restriction{}, "")
			require.NoError(t, err)
			return all
		}
		keep(t, l, rec("refused", func(r *ledgerv1.Record) {
			r.Outcome, r.Status, r.RefusedBy, r.Provider, r.Attempts = "rejected", 401, "unknown key", "", 0
		}))
		require.Zero(t, served())
		keep(t, l, rec("served"))
		require.EqualValues(t, 1, served())
	})
}
