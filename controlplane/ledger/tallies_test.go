package ledger_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// spread returns records of three days, of every class, some without a key or a user.
func spread(r *rand.Rand, name string, n int) (all []*ledgerv1.Record) {
	for i := range n {
		all = append(all, rec(fmt.Sprint(name, i), func(x *ledgerv1.Record) {
			at := noon.Add(-time.Duration(r.Int64N(int64(72 * time.Hour))))
			x.Start, x.End = timestamppb.New(at), timestamppb.New(at.Add(time.Second))
			x.Key, x.Organization = fmt.Sprint("key_", r.IntN(3)), fmt.Sprint("org", r.IntN(2))
			x.Project, x.Model, x.Provider = fmt.Sprint("p", r.IntN(2)), fmt.Sprint("m", r.IntN(2)), fmt.Sprint("v", r.IntN(2))
			x.User = []string{"", "u1", "u2"}[r.IntN(3)]
			x.InputTokens, x.CachedTokens, x.OutputTokens = r.Int64N(100), r.Int64N(10), r.Int64N(50)
			x.CostNanoUsd = r.Int64N(1e6)
			switch r.IntN(6) {
			case 0:
				x.Outcome, x.Status = "failed", 502
			case 1:
				x.Outcome, x.Status, x.RefusedBy = "rejected", 429, "key/key_1 limit"
			case 2:
				x.Outcome, x.Status = "rejected", 400
			case 3:
				x.Outcome, x.Status = "cancelled", 0
			case 4:
				x.RefusedBy, x.Status, x.Outcome, x.Key, x.Requests = "unknown key", 401, "rejected", "", 7
			}
		}))
	}
	return all
}

// fromTallies are all answers that may come from the tallies.
func fromTallies(t *testing.T, l *ledger.Ledger) map[string]any {
	t.Helper()
	answers, start, end := map[string]any{}, fmt.Sprint(noon.Add(-80*time.Hour).Unix()), fmt.Sprint(noon.Unix()+1)
	for _, width := range []string{"3600", "86400"} {
		for _, filters := range []map[string]string{{"key": "key_1"}, {"key": "key_1", "organization": "org1"},
			{"user": "u1"}, {"user": "u1", "model": "m1"}, {"user": "u1", "key": "key_2"},
			{"user": "u1", "organization": "org0"},
			{"organization": "org1"}, {"organization": "org1", "project": "p1"}, {"project": "p1"}, {"model": "m0"},
			{"provider": "v1"}, {"provider": "v1", "model": "m0"}, {"status": "502"}, {"status": "0", "model": "m1"},
			{"status": "429", "key": "key_0"}, {"keys": "key_0,key_2"}, {"keys": "key_0,key_2", "key": "key_2"},
			{"outcome": "failed", "key": "key_1"}, {"outcome": "error", "model": "m1"}, {"outcome": "served"},
			{"key": "none"}, {"refused_by": "unknown key"}} {
			f := maps.Clone(filters)
			f["start"], f["end"], f["width"] = start, end, width
			found, err := l.Outcomes(t.Context(), adminapi.ListOptions{Filters: f})
			require.NoError(t, err)
			answers[fmt.Sprint(width, filters)] = found
			delete(f, "width")
			for _, outcome := range []string{"", "served", "error", "cancelled"} {
				if f["outcome"] = outcome; filters["outcome"] != "" {
					continue
				}
				page, err := l.Exchanges(t.Context(), adminapi.ListOptions{Filters: f, Limit: 20})
				require.NoError(t, err)
				answers[fmt.Sprint("list of ", outcome, filters)] = page
			}
		}
	}
	for _, filters := range []map[string][]string{{"user": {"u1"}}, {"user": {"u1", "u2"}, "model": {"m0"}},
		{"user": {"u2"}, "provider": {"v1"}}, {"user": {"u1"}, "organization": {"org1"}}, {"model": {"m1"}}, {}} {
		for _, by := range append(seriesBy, "") {
			answers[fmt.Sprint("usage by ", by, filters)] = series(t, l, adminapi.SeriesQuery{Start: noon.Add(-80 * time.Hour),
				End: noon.Add(time.Second), Width: "1d", By: by, Filters: filters, Detailed: 100})
		}
	}
	return answers
}

// requireSame demands that two ledgers answer alike.
func requireSame(t *testing.T, want, got map[string]any, what string) {
	t.Helper()
	for question := range want {
		require.Equal(t, fmt.Sprint(want[question]), fmt.Sprint(got[question]), "%s: %s", what, question)
	}
}

// TestTalliesAnswerAsTheExchangesDo compares what is told of a ledger without tallies with what is told of one that
// tallies and merges what came so far, now and then.
func TestTalliesAnswerAsTheExchangesDo(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		l, plain := open(t, dsn), open(t, "sqlite://"+t.TempDir()+"/plain.db")
		for i := range 4 {
			for part := range 10 {
				some := spread(r, fmt.Sprint(i, ".", part, "."), 40)
				keep(t, l, some...)
				keep(t, plain, some...)
				_, err := l.Spent(t.Context(), "") // so that each batch is a segment
				require.NoError(t, err)
			}
			requireSame(t, fromTallies(t, plain), fromTallies(t, l), fmt.Sprint("round ", i))
			require.NoError(t, l.Tally(t.Context(), i%2 == 0)) // there are few: odd rounds add nothing
			require.NoError(t, l.Merge(t.Context()))
			requireSame(t, fromTallies(t, plain), fromTallies(t, l), fmt.Sprint("round ", i, ", tallied"))
		}
		_, err := l.EraseUser(t.Context(), "u1")
		require.NoError(t, err)
		_, err = plain.EraseUser(t.Context(), "u1")
		require.NoError(t, err)
		require.NoError(t, l.Tally(t.Context(), true))
		requireSame(t, fromTallies(t, plain), fromTallies(t, l), "a user is erased")
		found, err := l.UserData(t.Context(), "u1")
		require.NoError(t, err)
		require.Zero(t, found.Sums)
	})
}

// TestEachRowIsTalliedOnce has several processes tally and merge at once, while others read.
func TestEachRowIsTalliedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, r := open(t, dsn), rand.New(rand.NewPCG(1, 2))
		others := []*ledger.Ledger{l, open(t, dsn), open(t, dsn)}
		var kept []*ledgerv1.Record
		var working sync.WaitGroup
		for part := range 30 {
			some := spread(r, fmt.Sprint(part, "."), 20)
			keep(t, l, some...)
			kept = append(kept, some...)
			for _, other := range others {
				working.Go(func() {
					if _, err := other.Spent(t.Context(), ""); err != nil {
						t.Error(err)
					}
					if err := other.Tally(t.Context(), true); err != nil {
						t.Error(err)
					}
					if err := other.Merge(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			working.Go(func() {
				o, err := l.Outcomes(t.Context(), adminapi.ListOptions{Filters: map[string]string{"model": "m1", "width": "86400",
					"start": fmt.Sprint(noon.Add(-80 * time.Hour).Unix()), "end": fmt.Sprint(noon.Unix() + 1)}})
				n, want := int64(0), int64(0)
				for _, b := range o.Buckets {
					n += b.Served + b.Errors + b.Rejected + b.Cancelled
				}
				for _, x := range kept {
					if x.Model == "m1" {
						want += max(x.Requests, 1)
					}
				}
				if err != nil || n != want {
					t.Error(n, want, err)
				}
			})
			working.Wait()
		}
		plain := open(t, "sqlite://"+t.TempDir()+"/plain.db")
		keep(t, plain, kept...)
		requireSame(t, fromTallies(t, plain), fromTallies(t, l), "at the end")
	})
}

// TestTalliesOfALedgerThatHasNone opens one whose tables are older.
func TestTalliesOfALedgerThatHasNone(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, r := open(t, dsn), rand.New(rand.NewPCG(1, 2))
		keep(t, l, spread(r, "", 300)...)
		want := fromTallies(t, l)
		require.NoError(t, l.Tally(t.Context(), true))
		require.NoError(t, l.Older(t.Context()))
		newer := open(t, dsn)
		requireSame(t, want, fromTallies(t, newer), "older")
		require.NoError(t, newer.Tally(t.Context(), true))
		requireSame(t, want, fromTallies(t, newer), "tallied")
	})
}

// TestOldTalliesArePruned keeps those by day of the day in which the oldest exchange began.
func TestOldTalliesArePruned(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		for i, days := range []int{0, 9, 11, 29, 30, 31, 40} {
			keep(t, l, rec(fmt.Sprint(i), func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.AddDate(0, 0, -days)) }))
		}
		require.NoError(t, l.Tally(t.Context(), true))
		_, err := l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		starts, err := l.Tallies(t.Context())
		require.NoError(t, err)
		ago := func(width time.Duration, days ...int) (all []int64) {
			for _, d := range days {
				all = append(all, noon.AddDate(0, 0, -d).Truncate(width).Unix())
			}
			return all
		}
		require.Equal(t, map[int64][]int64{3600: ago(time.Hour, 9, 0), 86400: ago(24*time.Hour, 30, 29, 11, 9, 0)}, starts)
	})
}

// TestWhenKeysWereLastUsed has keys of which the newest exchanges are tallied, not tallied, or deleted.
func TestWhenKeysWereLastUsed(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, n := open(t, dsn), 0
		at := func(key string, ago time.Duration, change ...func(*ledgerv1.Record)) {
			n++
			keep(t, l, rec(fmt.Sprint(n), append(change, func(r *ledgerv1.Record) {
				r.Key, r.Start = key, timestamppb.New(noon.Add(-ago))
			})...))
		}
		refused := func(r *ledgerv1.Record) { r.RefusedBy = "policy x" }
		const hour, day = time.Hour, 24 * time.Hour
		at("both", 2*day)
		at("late", day)
		at("old", 40*day)
		at("older", 35*day)
		at("deleted", 9*day)
		at("deleted", 8*day, refused)
		at("today", 2*hour)
		require.NoError(t, l.Tally(t.Context(), true))
		at("both", hour)
		at("late", 3*day)
		at("today", 3*hour)
		at("new", 50*day)
		_, err := l.Prune(t.Context(), ledger.Retention{Exchanges: 100 * day})
		require.NoError(t, err)
		used, err := l.LastUsed(t.Context(), "both", "late", "old", "older", "deleted", "today", "new", "none")
		require.NoError(t, err)
		ago := map[string]time.Duration{}
		for key, last := range used {
			ago[key] = noon.Sub(last)
		}
		require.Equal(t, map[string]time.Duration{"both": hour, "late": day, "old": 40 * day, "older": 35 * day,
			"deleted": 9 * day, "today": 2 * hour, "new": 50 * day}, ago)
	})
}
