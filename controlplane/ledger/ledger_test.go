package ledger_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// noon is when the tests take place.
var noon = time.Date(2026, 3, 10, 12, 30, 0, 0, time.UTC)

// onBoth runs a test on SQLite and on PostgreSQL, with the address of an empty database.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "a folder", "ledger.db")))
	})
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Start(t)) })
}

func open(t testing.TB, dsn string) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), dsn, zap.NewNop())
	require.NoError(t, err)
	l.SetNow(func() time.Time { return noon })
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func rec(id string, change ...func(*ledgerv1.Record)) *ledgerv1.Record {
	r := &ledgerv1.Record{Id: id, RequestId: "req_" + id, Start: timestamppb.New(noon),
		End: timestamppb.New(noon.Add(time.Second)), Key: "key_1", Organization: "acme",
		Project: "web", User: "u1", Operation: "chat/completions", Model: "gpt", Provider: "openai", UpstreamModel: "gpt-1",
		Attempts: 1, Status: 200,
		Outcome: "finished", FirstByteMs: 100, InputTokens: 100, CachedTokens: 40, OutputTokens: 10, CostNanoUsd: 1000,
		Priced: true, PriceVersion: "1"}
	for _, c := range change {
		c(r)
	}
	return r
}

func keep(t testing.TB, l *ledger.Ledger, records ...*ledgerv1.Record) {
	t.Helper()
	require.NoError(t, l.Record(context.Background(), records))
}

// requireSums requires that what the aggregates say is what the exchanges say.
func requireSums(t testing.TB, l *ledger.Ledger) (requests, cost int64) {
	t.Helper()
	exchanges, aggregates, err := l.Sums(context.Background())
	require.NoError(t, err)
	for level, sums := range aggregates {
		require.Equal(t, exchanges, sums, "level %d", level)
	}
	return exchanges[0], exchanges[len(exchanges)-1]
}

// random returns a record that the gateway could make.
func random(r *rand.Rand, id string) *ledgerv1.Record {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	return rec(id, func(x *ledgerv1.Record) {
		start := noon.Add(-time.Duration(r.Int64N(int64(40 * 24 * time.Hour))))
		x.Start, x.End = timestamppb.New(start), timestamppb.New(start.Add(time.Duration(r.Int64N(int64(time.Minute)))))
		x.Key, x.Organization, x.Project = pick("key_1", "key_2", "key_3"), pick("acme", "umbrella", ""), pick("web", "app",
			"")
		x.User, x.Operation, x.Model = pick("u1", "u2", ""), pick("chat/completions", "embeddings", "images/generations",
			"audio/speech"), pick("gpt", "claude")
		x.Provider, x.Outcome, x.Status = pick("openai", "azure"), pick("finished", "finished", "rejected", "failed",
			"truncated", "cancelled", "interrupted"), []uint32{200, 400, 502}[r.IntN(3)]
		x.InputTokens, x.OutputTokens, x.Images, x.CostNanoUsd = r.Int64N(1000), r.Int64N(1000), r.Int64N(3), r.Int64N(1e9)
		x.Batch, x.Requests = r.IntN(3) == 0, r.Int64N(3)
	})
}

func TestARecordIsKeptOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		keep(t, l, rec("a"), rec("b"), rec("a", func(r *ledgerv1.Record) { r.CostNanoUsd = 5 }))
		keep(t, l, rec("b"), rec("c"))
		keep(t, l)
		keep(t, l, rec("a"))
		requests, cost := requireSums(t, l)
		require.Equal(t, int64(3), requests)
		require.Equal(t, int64(3000), cost)
		require.NoError(t, l.Close())

		again := open(t, dsn)
		keep(t, again, rec("a"))
		requests, _ = requireSums(t, again)
		require.Equal(t, int64(3), requests)
	})
}

func TestManyWritersThatRepeatThemselves(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		ledgers := []*ledger.Ledger{open(t, dsn)}
		if filepath.Ext(dsn) != ".db" {
			ledgers = append(ledgers, open(t, dsn), open(t, dsn)) // control planes that start at once
		}
		var records []*ledgerv1.Record
		source := rand.New(rand.NewPCG(seed, 0))
		want, money := int64(0), int64(0)
		for i := range 300 {
			r := random(source, fmt.Sprint("r", i))
			want, money = want+max(r.Requests, 1), money+r.CostNanoUsd
			records = append(records, r)
		}
		spent := follow(t, ledgers[0])
		var writing sync.WaitGroup
		for w := range 4 {
			own := rand.New(rand.NewPCG(seed, uint64(w)+1))
			writing.Go(func() {
				order := own.Perm(len(records))
				for len(order) > 0 {
					var batch []*ledgerv1.Record
					for _, i := range order[:min(60, len(order))] {
						batch = append(batch, records[i])
					}
					order = order[len(batch):]
					if err := ledgers[w%len(ledgers)].Record(context.Background(), batch); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		requests, cost := requireSums(t, ledgers[0])
		require.Equal(t, want, requests)
		require.Equal(t, money, cost)

		truth := map[string]int64{}
		for _, r := range records {
			if start := r.Start.AsTime(); start.Month() == noon.Month() {
				truth["key/"+r.Key] += r.CostNanoUsd
				if r.Organization != "" {
					truth["organization/"+r.Organization] += r.CostNanoUsd
				}
				if r.Project != "" {
					truth["project/"+r.Organization+"/"+r.Project] += r.CostNanoUsd
				}
			}
		}
		require.Equal(t, truth, spent(), "what changed while it was followed is what there is in the end")
	})
}

// follow reads what is spent with its cursor, again and again, until what it returns is called, which returns the
// months.
func follow(t *testing.T, l *ledger.Ledger) func() map[string]int64 {
	months, cursor := map[string]int64{}, ""
	read := func() {
		answer, err := l.Spent(context.Background(), cursor)
		if err != nil {
			t.Error(err)
			return
		}
		cursor = answer.GetCursor()
		for _, s := range answer.GetSpent() {
			months[s.GetSubject()] = s.GetMonthNanoUsd()
		}
	}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				read()
			}
		}
	})
	return func() map[string]int64 {
		close(stop)
		reading.Wait()
		read()
		return months
	}
}

func TestSpent(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		answer, err := l.Spent(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, answer.GetSpent())
		yesterday := func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.AddDate(0, 0, -1)) }
		lastMonth := func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.AddDate(0, -1, 0)) }
		other := func(r *ledgerv1.Record) { r.Key, r.Organization, r.Project = "key_2", "", "" }
		keep(t, l, rec("a"), rec("b", yesterday), rec("c", lastMonth))
		answer, err = l.Spent(t.Context(), answer.GetCursor())
		require.NoError(t, err)
		require.Len(t, answer.GetSpent(), 3)
		for i, subject := range []string{"key/key_1", "organization/acme", "project/acme/web"} {
			s := answer.GetSpent()[i]
			require.Equal(t, subject, s.GetSubject())
			require.Equal(t, int64(1000), s.GetDayNanoUsd())
			require.Equal(t, int64(2000), s.GetMonthNanoUsd())
			require.True(t, s.GetAt().AsTime().Equal(noon))
		}
		keep(t, l, rec("d", other))
		changed, err := l.Spent(t.Context(), answer.GetCursor())
		require.NoError(t, err)
		require.Len(t, changed.GetSpent(), 1)
		require.Equal(t, "key/key_2", changed.GetSpent()[0].GetSubject())
		again, err := l.Spent(t.Context(), changed.GetCursor())
		require.NoError(t, err)
		require.Empty(t, again.GetSpent())
		for _, cursor := range []string{"nonsense", "zz.1", "-1"} {
			all, err := l.Spent(t.Context(), cursor)
			require.NoError(t, err)
			require.Len(t, all.GetSpent(), 4, "a cursor of another database means everything")
		}
		by, err := l.SpentBy(t.Context(), "key/key_1", "key/none")
		require.NoError(t, err)
		require.Equal(t, map[string]ledger.Spending{"key/key_1": {Day: 1000, Month: 2000}}, by)
		keep(t, l, rec("refused", func(r *ledgerv1.Record) {
			r.Key, r.Start, r.End, r.RefusedBy = "key_1", timestamppb.New(noon.Add(time.Second)),
				timestamppb.New(noon.Add(time.Second)), "key/key_1 disabled"
		}))
		used, err := l.LastUsed(t.Context(), "key_1", "none")
		require.NoError(t, err)
		require.Equal(t, map[string]time.Time{"key_1": noon.Add(time.Second)}, used, "also by a request that was refused")
	})
}

func TestWhatARecordSaysIsNeverRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		long := string(make([]byte, 5000))
		keep(t, l,
			rec("empty", func(r *ledgerv1.Record) { r.Reset(); r.Id = "empty" }),
			rec("a\x00b", func(r *ledgerv1.Record) { r.User, r.Model = "x\x00\xff", long }),
			rec("large", func(r *ledgerv1.Record) {
				r.InputTokens, r.CostNanoUsd, r.Requests = math.MaxInt64, math.MaxInt64, math.MaxInt64
			}),
			rec("larger", func(r *ledgerv1.Record) { r.OutputTokens, r.CostNanoUsd = math.MaxInt64, math.MaxInt64 }),
			rec("negative", func(r *ledgerv1.Record) {
				r.InputTokens, r.CostNanoUsd, r.Requests, r.FirstByteMs = -1, -1, -1,
					-1
			}),
			rec("", nil...),
			// Clocks step.
			rec("future", func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.AddDate(1, 0, 0)) }),
			rec("1970", func(r *ledgerv1.Record) { r.Start = &timestamppb.Timestamp{Seconds: 60} }),
			rec("no time", func(r *ledgerv1.Record) { r.Start = &timestamppb.Timestamp{Seconds: math.MaxInt64, Nanos: -5} }),
			rec("backwards", func(r *ledgerv1.Record) { r.End = timestamppb.New(noon.Add(-time.Hour)) }),
		)
		requireSums(t, l)
		page, err := l.Exchanges(t.Context(), adminapi.ListOptions{})
		require.NoError(t, err)
		require.Len(t, page.Items, 9)
		for _, e := range page.Items {
			require.WithinDuration(t, noon, e.Start, time.Minute, e.ID)
			require.GreaterOrEqual(t, e.DurationMS, int64(0), e.ID)
		}
	})
}

func TestOpenRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, dsn := range []string{"", "mysql://user:topsecret@host/db", "sqlite://", "postgres://user:topsecret@[::1/db"} {
		_, err := ledger.Open(t.Context(), dsn, zap.NewNop())
		require.Error(t, err, dsn)
		require.NotContains(t, err.Error(), "topsecret")
	}
}

func TestControlPlanesThatStartTogether(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			l, err := ledger.Open(context.Background(), dsn, zap.NewNop())
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
}

func TestPruneKeepsSums(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		var records []*ledgerv1.Record
		for i := range 2100 { // more than one transaction deletes
			records = append(records, rec(fmt.Sprint("old", i),
				func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.AddDate(0, 0, -31)) }))
		}
		records = append(records, rec("new"), rec("ancient",
			func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.AddDate(0, 0, -401)) }))
		keep(t, l, records...)
		require.NoError(t, l.AppendAudit(t.Context(), []adminapi.AuditEntry{{ID: "1", At: noon.AddDate(0, 0, -401)},
			{ID: "2", At: noon}}))
		n, err := l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		require.Equal(t, int64(2100+1+5+6+1+3+3+2+6), n,
			"exchanges; aggregates and spending of the ancient one; an entry; attempts, and outcomes, of two minutes and an hour; two minutes; of a key and a user two hours and a day")
		exchanges, aggregates, err := l.Sums(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), exchanges[0])
		for _, a := range aggregates {
			require.Equal(t, int64(2101), a[0])
		}
		n, err = l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestPercentilesAreRightWithinABucket(t *testing.T) {
	for range 50 {
		var all []int64
		low := rand.Int64N(20_000)
		for i := range int64(1000) {
			all = append(all, low+i*20)
		}
		for _, p := range []float64{0.5, 0.95} {
			require.InEpsilon(t, float64(all[int(p*1000)-1])+1, float64(ledger.Percentile(all, p))+1, 0.6, "%d %f", low, p)
		}
	}
	require.Zero(t, ledger.Percentile(nil, 0.5))
	require.LessOrEqual(t, ledger.Percentile([]int64{math.MaxInt64}, 0.95), int64(80_000))
}
