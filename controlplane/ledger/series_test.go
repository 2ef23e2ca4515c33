package ledger_test

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func series(t *testing.T, l *ledger.Ledger, q adminapi.SeriesQuery) adminapi.Series {
	t.Helper()
	if q.Groups == 0 {
		q.Groups = 10_000
	}
	s, err := l.Series(t.Context(), q.Values())
	require.NoError(t, err)
	return s
}

var seriesBy = []string{"model", "provider", "key", "organization", "project", "user"}

// requireSeries demands that every group and width tells the same of everything as the exchanges do.
func requireSeries(t *testing.T, l *ledger.Ledger, end time.Time) {
	t.Helper()
	exchanges, _, err := l.Sums(t.Context())
	require.NoError(t, err)
	for width, back := range map[string]time.Duration{"1m": time.Hour, "5m": 2 * time.Hour, "1h": 24 * time.Hour,
		"1d": 48 * time.Hour} {
		for _, by := range seriesBy {
			what := fmt.Sprint(width, " by ", by)
			s := series(t, l, adminapi.SeriesQuery{Start: end.Add(-back), End: end, Width: width, By: by, Detailed: 10_000})
			require.Equal(t, exchanges[0], s.Requests, what)
			require.Equal(t, exchanges[2], s.Errors, what)
			var requests, errors, tokens, inBuckets, inAll int64
			for _, g := range s.Groups {
				requests, errors, tokens = requests+g.Requests, errors+g.Errors, tokens+g.InputTokens
				for _, b := range g.Buckets {
					inBuckets += b.Requests
				}
				if g.Name == "" { // what is left of all has no buckets
					inBuckets += g.Requests
					for _, b := range g.Buckets {
						inBuckets -= b.Requests
					}
				}
			}
			for _, b := range s.Buckets {
				inAll += b.Requests
			}
			require.Equal(t, []int64{s.Requests, s.Errors, s.InputTokens, s.Requests, s.Requests},
				[]int64{requests, errors, tokens, inBuckets, inAll}, what)
		}
	}
}

func TestSeriesAgreeWithTheExchangesWhateverTheyAreReadFrom(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, s := open(t, dsn), newStream(30)
		l.SetNow(func() time.Time { return noon })
		for range 5 {
			keep(t, l, s.records(100)...)
		}
		requireSeries(t, l, noon)

		// What is filtered by comes from other tables, and agrees with the group.
		for _, width := range []string{"1m", "1h", "1d"} {
			q := adminapi.SeriesQuery{Start: noon.Add(-20 * time.Hour), End: noon, Width: width}
			for _, by := range seriesBy {
				q.By, q.Filters = by, nil
				groups := slices.DeleteFunc(series(t, l, q).Groups, func(g adminapi.SeriesGroup) bool { return g.Name == "" })
				require.NotEmpty(t, groups)
				q.By, q.Filters = "", map[string][]string{by: {groups[0].Name}}
				require.Equal(t, groups[0].Requests, series(t, l, q).Requests, "%s by %s", width, by)
				q.By, q.Filters["model"] = "user", []string{"model-1"}
				require.Less(t, series(t, l, q).Requests, int64(500))
			}
		}
		top := series(t, l, adminapi.SeriesQuery{Start: noon.Add(-time.Hour), End: noon, Width: "1m", By: "model", Groups: 3,
			Detailed: 2, Order: "requests"})
		require.Len(t, top.Groups, 3)
		require.Equal(t, int64(5), top.GroupsLeftOut)
		require.GreaterOrEqual(t, top.Groups[0].Requests, top.Groups[1].Requests)
		require.NotEmpty(t, top.Groups[1].Buckets)
		require.Empty(t, top.Groups[2].Buckets)
		require.NotZero(t, top.LatencyP95)
		for _, by := range seriesBy { // they come from different tables
			for _, width := range []string{"1m", "1h"} {
				q := adminapi.SeriesQuery{Start: noon.Add(-time.Hour), End: noon, Width: width, By: by, Groups: 3, Order: "errors"}
				worst := series(t, l, q).Groups
				q.Groups, q.Order = 10_000, ""
				all := slices.DeleteFunc(series(t, l, q).Groups, func(g adminapi.SeriesGroup) bool { return g.Name == "" })
				most := slices.MaxFunc(all, func(a, b adminapi.SeriesGroup) int { return cmp.Compare(a.Errors, b.Errors) })
				require.GreaterOrEqual(t, worst[0].Errors, most.Errors, "%s by %s", width, by)
			}
		}
	})
}

func TestSeriesOfWrongQueriesAreRefused(t *testing.T) {
	l := open(t, "sqlite://"+t.TempDir()+"/ledger.db")
	for query, says := range map[string]string{
		"width=2h": "it must be 1m, 5m, 1h or 1d", "by=color": "it must be model, key", "order=size": "it must be cost",
		"start=10&end=5": "it must be after 'start'", "start=0&end=1000000&width=1m": "at most 1440 times 'width'",
		"hue=3": "Unknown parameter: 'hue'", "by=model&by=key": "it must be given once", "groups=-1": "below minimum",
		"groups=10001": "above maximum", "model=": "it must not be empty",
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = l.Series(t.Context(), q)
		require.ErrorContains(t, err, says, query)
	}
}
