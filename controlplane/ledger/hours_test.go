package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// TestGroupsOfAnyHours has a request in each hour of some days, those of an hour of the day by one key, and asks for
// the groups of any hours: whole days are read from the sums by day, and hours are added or taken away.
func TestGroupsOfAnyHours(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		midnight := noon.Truncate(24 * time.Hour)
		begin := midnight.AddDate(0, 0, -3)
		var records []*ledgerv1.Record
		for h := range 4 * 24 {
			records = append(records, rec(fmt.Sprint(h), func(r *ledgerv1.Record) {
				at := begin.Add(time.Duration(h)*time.Hour + time.Minute)
				r.Start, r.End = timestamppb.New(at), timestamppb.New(at)
				r.Key, r.Organization, r.Model = fmt.Sprint("key_", h%24), fmt.Sprint("org", h%24), fmt.Sprint("model", h%24)
			}))
		}
		l.SetNow(func() time.Time { return midnight.AddDate(0, 0, 1) })
		keep(t, l, records...)
		for _, now := range []time.Time{noon, midnight.AddDate(0, 0, 1)} {
			l.SetNow(func() time.Time { return now })
			for _, from := range []int{0, 1, 5, 11, 12, 13, 23, 24, 29, 47} {
				for _, to := range []int{48, 49, 59, 61, 71, 72, 73, 83, 84, 85, 95} {
					for _, by := range []string{"key", "organization", "model"} {
						q := adminapi.SeriesQuery{Start: begin.Add(time.Duration(from) * time.Hour),
							End: begin.Add(time.Duration(to) * time.Hour), Width: "1h", By: by}
						what := fmt.Sprint("hours ", from, " to ", to, " by ", by, " at ", now)
						s := series(t, l, q)
						require.Equal(t, int64(to-from), s.Requests, what)
						all := map[string]int64{}
						for _, g := range s.Groups {
							all[g.Name] = g.Requests
						}
						want := map[string]int64{}
						for h := from; h < to; h++ {
							want[fmt.Sprint(map[string]string{"key": "key_", "organization": "org", "model": "model"}[by], h%24)]++
						}
						require.Equal(t, want, all, what)
						q.Filters = map[string][]string{by: {s.Groups[0].Name}}
						require.Equal(t, s.Groups[0].Requests, series(t, l, q).Groups[0].Requests, what)
					}
				}
			}
		}
	})
}
