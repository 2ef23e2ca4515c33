package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/cachesums"
	"github.com/modelgate/modelgate/internal/usage"
)

// TestWhatCachesSaved has misses of two and four seconds, and hits of one second, in two hours and models.
func TestWhatCachesSaved(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		did := func(text string, took, ago time.Duration) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) {
				r.Details = &ledgerv1.Details{Cache: text}
				r.Start, r.End = timestamppb.New(noon.Add(-ago)), timestamppb.New(noon.Add(took-ago))
			}
		}
		const hit = "hit faq (9 s old, 0.25 USD saved)"
		keep(t, l, rec("a", did("miss faq", 2*time.Second, 0)), rec("b", did("miss faq (comparison failed)", 4*time.Second,
			time.Hour)), rec("c", did(hit, time.Second, time.Minute)), rec("d", did(hit, time.Second, time.Hour)),
			rec("e", did("bypass faq (tools)", time.Second, 0)), rec("f"),
			rec("g", did("similar other (1 s old, 0.5 USD saved, similarity 0.990)", 0, 0),
				func(r *ledgerv1.Record) { r.Model, r.Organization = "m", "south" }),
			rec("h", did("miss faq", time.Hour, 0), func(r *ledgerv1.Record) { r.Outcome, r.Status = "failed", 502 }),
			rec("i", did(hit, 0, 100*24*time.Hour)))
		keep(t, l, rec("c", did(hit, time.Second, time.Minute))) // known already
		type sums struct {
			model, cache     string
			hits, miss, pass int64
			saved            usage.Nano
			took             time.Duration
		}
		gpt := sums{"gpt", "faq", 2, 3, 1, usage.Dollar / 2, 4 * time.Second}
		m := sums{"m", "other", 1, 0, 0, usage.Dollar / 2, 0}
		for _, c := range []struct {
			of   cachesums.Query
			want []sums
		}{
			{cachesums.Query{From: noon.Add(-24 * time.Hour)}, []sums{gpt, m}},
			{cachesums.Query{From: noon.AddDate(0, 0, -30)}, []sums{gpt, m}},
			{cachesums.Query{From: noon.Add(-24 * time.Hour), Organization: "acme", Project: "web"}, []sums{gpt}},
			{cachesums.Query{From: noon.Add(-24 * time.Hour), Model: "m"}, []sums{m}},
			{cachesums.Query{From: noon.Add(-24 * time.Hour), Project: "none"}, nil},
		} {
			c.of.To = noon.Add(time.Second)
			got, err := l.Cached(t.Context(), c.of)
			require.NoError(t, err)
			var all []sums
			for _, s := range got {
				all = append(all, sums{s.Model, s.Cache, s.Hits, s.Misses, s.Bypassed, s.Saved, s.Took()})
			}
			require.Equal(t, c.want, all, "%+v", c.of)
		}
		prompts, err := l.Prompts(t.Context(), cachesums.Query{From: noon.Add(-24 * time.Hour), To: noon.Add(time.Second),
			Organization: "acme"})
		require.NoError(t, err)
		require.Equal(t, []ledger.Prompt{{Provider: "openai", Upstream: "gpt-1", Input: 700, Cached: 280}}, prompts)
		deleted, err := l.Prune(t.Context(), ledger.Retention{Aggregates: 50 * 24 * time.Hour})
		require.NoError(t, err)
		require.NotZero(t, deleted)
		got, err := l.Cached(t.Context(), cachesums.Query{From: noon.AddDate(0, 0, -200),
			To: noon.Add(time.Second), Model: "gpt"})
		require.NoError(t, err)
		require.Equal(t, int64(2), got[0].Hits, "the old one is gone")
	})
}
