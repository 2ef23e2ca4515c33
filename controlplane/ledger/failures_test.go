package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func TestFailuresAndRefusalsOfLately(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		since := noon.Add(-15 * time.Minute)
		all, bad, err := l.Failures(t.Context(), since, ledger.Restriction{}, "")
		require.NoError(t, err)
		require.Zero(t, all+bad, "of nothing, nothing failed")
		began := func(ago time.Duration) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) {
				r.Start, r.End = timestamppb.New(noon.Add(-ago)), timestamppb.New(noon.Add(time.Second-ago))
			}
		}
		failed := func(r *ledgerv1.Record) { r.Status, r.Outcome = 502, "failed" }
		refused := func(by string) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) { r.Status, r.Outcome, r.RefusedBy = 429, "rejected", by }
		}
		keep(t, l, rec("a", began(time.Minute)), rec("b", began(time.Minute), failed),
			rec("c", began(time.Minute), failed, func(r *ledgerv1.Record) { r.Key, r.Provider = "key_2", "other" }),
			rec("d", began(time.Hour), failed),
			rec("e", began(time.Minute), refused("key/key_1 limit requests per minute")),
			rec("f", began(time.Minute), refused("key/key_1 limit requests per minute")),
			rec("g", began(time.Hour), refused("budget key/key_1 day")))
		for _, c := range []struct {
			of       ledger.Restriction
			provider string
			all, bad int64
		}{
			{ledger.Restriction{}, "", 3, 2}, {ledger.Restriction{}, "other", 1, 1},
			{ledger.Restriction{Key: "key_1"}, "", 2, 1}, {ledger.Restriction{Organization: "acme"}, "", 3, 2},
			{ledger.Restriction{Organization: "acme", Project: "web"}, "other", 1, 1},
			{ledger.Restriction{Organization: "none"}, "", 0, 0},
		} {
			all, bad, err := l.Failures(t.Context(), since, c.of, c.provider)
			require.NoError(t, err)
			require.Equal(t, []int64{c.all, c.bad}, []int64{all, bad}, "%+v", c)
		}
		refusals, err := l.Refusals(t.Context(), since, 429)
		require.NoError(t, err)
		require.Equal(t, []ledger.Refusal{{By: "key/key_1 limit requests per minute", Key: "key_1", Organization: "acme",
			Project: "web", Status: 429, Requests: 2}}, refusals)
		refusals, err = l.Refusals(t.Context(), since, 401, 404)
		require.NoError(t, err)
		require.Empty(t, refusals)
	})
}

// TestRefusedKeysAreCounted has rows that count several, a key that is refused in two hours, and unknown keys.
func TestRefusedKeysAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		refused := func(key, hint string, n int64, ago time.Duration) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) {
				r.Status, r.Outcome, r.RefusedBy = 401, "rejected", "unknown key"
				r.Key, r.KeyHint, r.Requests = key, hint, n
				r.Start, r.End = timestamppb.New(noon.Add(-ago)), timestamppb.New(noon.Add(-ago))
			}
		}
		keep(t, l, rec("a"), rec("b", refused("key_1", "", 7, time.Minute)),
			rec("c", refused("key_1", "", 1, 90*time.Minute)),
			rec("d", refused("key_2", "", 100, time.Minute)), rec("e", refused("key_1", "", 50, 48*time.Hour)),
			rec("f", refused("", "9896", 106, 3*time.Minute)), rec("g", refused("", "9896", 1, 2*time.Minute)),
			rec("h", refused("", "", 107, 4*time.Minute)), rec("i", refused("", "0000", 5, 48*time.Hour)))
		from, to := noon.Add(-24*time.Hour), noon.Add(time.Hour)
		all, err := l.RejectedKeys(t.Context(), from, to, 10)
		require.NoError(t, err)
		require.Equal(t, []ledger.Rejected{{Key: "key_2", Requests: 100}, {Key: "key_1", Requests: 8}}, all)
		all, err = l.RejectedKeys(t.Context(), from, to, 10, "key_1", "key_3")
		require.NoError(t, err)
		require.Equal(t, []ledger.Rejected{{Key: "key_1", Requests: 8}}, all)
		all, err = l.RejectedKeys(t.Context(), noon.AddDate(0, 0, -30), to, 1)
		require.NoError(t, err)
		require.Equal(t, []ledger.Rejected{{Key: "key_2", Requests: 100}}, all, "of days, too")
		strangers, err := l.Strangers(t.Context(), from, to)
		require.NoError(t, err)
		require.Equal(t, []ledger.Rejected{{Requests: 107, Last: noon.Add(-4 * time.Minute)},
			{Hint: "9896", Requests: 107, Last: noon.Add(-2 * time.Minute)}}, strangers)
		last, err := l.LastRefused(t.Context(), from, "key_1")
		require.NoError(t, err)
		require.Equal(t, noon.Add(-time.Minute), last)
		last, err = l.LastRefused(t.Context(), from, "key_3")
		require.NoError(t, err)
		require.Zero(t, last)
	})
}
