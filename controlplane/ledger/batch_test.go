package ledger_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

func TestTheCostOfABatch(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		unpriced := func(r *ledgerv1.Record) { r.Priced, r.CostNanoUsd = false, 0 }
		keep(t, l, rec("batch_1/1"), rec("batch_1/2"), rec("batch_1/3", unpriced), rec("batch_10/1"), rec("other"),
			rec("batch_1/4", func(r *ledgerv1.Record) { r.Key = "key_2" }))
		cost, err := l.BatchCost(t.Context(), "batch_1", "key_1", noon)
		require.NoError(t, err)
		require.Equal(t, adminapi.BatchCost{Requests: 3, Unpriced: 1, USD: "0.000002"}, cost)
		found, err := l.Exchanges(t.Context(), adminapi.ListOptions{Filters: map[string]string{"batch": "batch_1"}})
		require.NoError(t, err)
		require.Len(t, found.Items, 4)
		for _, e := range found.Items {
			require.Regexp(t, "^batch_1/", e.ID)
		}
	})
}

// The days that a forecast divides by are those that there were.
func TestAWeekBeginsWithTheFirstMoney(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		ago := func(key string, days int) *ledgerv1.Record {
			return rec(key+strconv.Itoa(days), func(r *ledgerv1.Record) {
				r.Key, r.Start = key, timestamppb.New(noon.AddDate(0, 0, -days))
				r.End = r.Start
			})
		}
		keep(t, l, ago("old", 20), ago("old", 2), ago("new", 2), ago("new", 1), ago("gone", 20))
		weeks, err := l.Week(t.Context(), "key/old", "key/new", "key/gone", "key/never")
		require.NoError(t, err)
		today := noon.UTC().Truncate(24 * time.Hour)
		require.Equal(t, today.AddDate(0, 0, -7), weeks["key/old"].From)
		require.Equal(t, today.AddDate(0, 0, -2), weeks["key/new"].From)
		require.Equal(t, 2*weeks["key/old"].Spent, weeks["key/new"].Spent)
		require.Len(t, weeks, 2)
	})
}

// A try of a batch's line costs what it costs, and counts as no request and no error.
func TestATryCountsAsNoRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		keep(t, l, rec("batch_1/1"), rec("try", func(r *ledgerv1.Record) {
			r.Status, r.Outcome, r.Tried = 502, "failed", true
		}))
		s := series(t, l, adminapi.SeriesQuery{Start: noon.Add(-time.Hour), End: noon.Add(time.Hour), Width: "1h", By: "key",
			Groups: 5})
		require.Equal(t, [2]int64{1, 0}, [2]int64{s.Requests, s.Errors})
		require.Equal(t, "0.000002", s.CostUSD)
		found, err := l.Exchanges(t.Context(), adminapi.ListOptions{})
		require.NoError(t, err)
		require.Len(t, found.Items, 2, "the log has it")
	})
}
