package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// A batch that the disk has no room for is not kept in part, wherever it fails, and is kept when there is room.
func TestABatchThatTheDiskHasNoRoomForLeavesNothing(t *testing.T) {
	l := open(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db")))
	keep(t, l, rec("before"))
	s := newStream(1000)
	batch := s.records(300)
	failed := 0
	for pages := 0; ; pages++ {
		require.NoError(t, l.Limit(t.Context(), pages))
		if l.Record(t.Context(), batch) == nil {
			break
		}
		failed++
		requests, cost := requireSums(t, l)
		require.Equal(t, int64(1), requests)
		require.Equal(t, int64(1000), cost)
		by, err := l.SpentBy(t.Context(), "organization/"+batch[0].GetOrganization())
		require.NoError(t, err)
		require.Empty(t, by)
	}
	require.Greater(t, failed, 5, "it fails in each of its parts")
	require.NoError(t, l.Limit(t.Context(), -1))
	keep(t, l, batch...)
	requests, _ := requireSums(t, l)
	require.Equal(t, int64(301), requests)
}

// A call that ends in the middle has kept everything or nothing, and made again it is kept once.
func TestABatchThatIsCancelledIsKeptWholeOrNotAtAll(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l, s := open(t, dsn), newStream(1000)
		r := rand.New(rand.NewPCG(rand.Uint64(), 0))
		want := int64(0)
		for range 20 {
			batch := s.records(200)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(20*time.Millisecond))))
			_ = l.Record(ctx, batch)
			cancel()
			if requests, _ := requireSums(t, l); requests != want {
				require.Equal(t, want+200, requests)
			}
			keep(t, l, batch...)
			want += 200
			requests, _ := requireSums(t, l)
			require.Equal(t, want, requests)
		}
	})
}

// Calls that wait for SQLite share the next transaction. One that gives up does not end it, and each record counts
// once, whoever brought it.
func TestCallsThatWaitShareATransaction(t *testing.T) {
	l := open(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db")))
	added := l.HoldSums()
	release, err := l.Block(t.Context())
	require.NoError(t, err)
	var calling sync.WaitGroup
	call := func(ctx context.Context, want error, gathered int, ids ...string) {
		var batch []*ledgerv1.Record
		for _, id := range ids {
			batch = append(batch, rec(id))
		}
		calling.Go(func() {
			if err := l.Record(ctx, batch); !errors.Is(err, want) {
				t.Error(ids, err)
			}
		})
		require.Eventually(t, func() bool {
			records, writing := l.Gathered()
			return writing && records == gathered
		}, 10*time.Second, time.Millisecond)
	}
	impatient, give := context.WithCancel(t.Context())
	call(t.Context(), nil, 0, "first")
	call(impatient, nil, 2, "a", "first") // the others wait for it
	call(impatient, context.Canceled, 3, "b")
	call(t.Context(), nil, 6, "c", "a", "d")
	give()
	require.NoError(t, release())
	calling.Wait()
	batches, err := l.Unfolded(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, batches, "the second transaction had all that waited for the first")
	added()
	requests, cost := requireSums(t, l)
	require.Equal(t, int64(5), requests)
	require.Equal(t, int64(5000), cost)
}

// The first of several records of a batch with one id counts, beside one that an older batch had and one that is
// wrong.
func TestARecordCountsOnceInABatchOfAllKinds(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		keep(t, l, rec("old"))
		cost := func(n int64) func(*ledgerv1.Record) {
			return func(r *ledgerv1.Record) { r.CostNanoUsd, r.InputTokens = n, n }
		}
		keep(t, l, rec("new", cost(1)), nil, rec("old", cost(10)), rec("wrong", cost(-100)), rec("new", cost(1000)), rec(""),
			rec("other", cost(10000)), rec("old", cost(100000)))
		requests, sum := requireSums(t, l)
		require.Equal(t, int64(4), requests)
		require.Equal(t, int64(1000+1+10000), sum)
		by, err := l.SpentBy(t.Context(), "key/key_1")
		require.NoError(t, err)
		require.Equal(t, map[string]ledger.Spending{"key/key_1": {Day: 11001, Month: 11001}}, by)
	})
}

func TestTextIsKeptAsItIs(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		texts := []string{`"`, `\`, `\"`, `a"b\c"`, `{a,b}`, `NULL`, `null`, ``, ` `, `,`, `'`,
			`$1`, `ü€`, "a\nb\tc", `\\\`, `\N`}
		var batch []*ledgerv1.Record
		for i, text := range texts {
			batch = append(batch, rec(fmt.Sprintf("%02d%s", i, text),
				func(r *ledgerv1.Record) { r.Model, r.User, r.Key = text, text, text }))
		}
		keep(t, l, batch...)
		page, err := l.Exchanges(t.Context(), adminapi.ListOptions{})
		require.NoError(t, err)
		require.Len(t, page.Items, len(texts))
		for i, e := range page.Items { // newest first, by descending ids
			text := texts[len(texts)-1-i]
			require.Equal(t, []string{text, text, text}, []string{e.Model, e.User, e.Key})
			require.Equal(t, fmt.Sprintf("%02d%s", len(texts)-1-i, text), e.ID)
		}
		requireSums(t, l)
	})
}

// A stream is of records as three processes of the data plane make them: every key belongs to a project of an
// organization and uses two models, some keys much more than others.
type stream struct {
	random *rand.Rand
	keys   *rand.Zipf
	made   int
}

func newStream(keys int) *stream {
	r := rand.New(rand.NewPCG(1, 1))
	return &stream{random: r, keys: rand.NewZipf(r, 1.2, 2, uint64(keys-1))}
}

func (s *stream) records(n int) []*ledgerv1.Record {
	all := make([]*ledgerv1.Record, n)
	for i := range all {
		all[i] = s.next()
	}
	return all
}

func (s *stream) next() *ledgerv1.Record {
	r, key := s.random, int(s.keys.Uint64())
	s.made++
	at := noon.Add(time.Duration(s.made)*time.Millisecond - 20*time.Minute)
	id := fmt.Sprintf("%012x-%s", s.made%3, strconv.FormatInt(int64(s.made), 36))
	return rec(id, func(x *ledgerv1.Record) {
		x.RequestId = fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<16),
			r.Int64N(1<<48))
		x.Start, x.End = timestamppb.New(at), timestamppb.New(at.Add(time.Duration(r.Int64N(int64(20*time.Second)))))
		x.Key, x.Organization = fmt.Sprintf("key_%08d", key), fmt.Sprint("organization-", key%20)
		x.Project = fmt.Sprint("project-", key%3)
		model := (key + r.IntN(2)) % 8
		x.Model, x.UpstreamModel = fmt.Sprint("model-", model), fmt.Sprintf("model-%d-2026-01-01", model)
		x.Provider, x.User = fmt.Sprint("provider-", model%4), ""
		if r.IntN(2) == 0 {
			x.User = fmt.Sprint("user-", r.IntN(500))
		}
		x.InputTokens, x.OutputTokens, x.CostNanoUsd = r.Int64N(5000), r.Int64N(1000), r.Int64N(1e7)
		if r.IntN(50) == 0 {
			x.Outcome, x.Status, x.ErrorCode = "failed", 502, "provider_error"
		}
	})
}

// What a process has kept and not added to the sums, the next that reads one adds, all of it and once.
func TestOthersAddWhatAProcessHasLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		gone := open(t, dsn)
		gone.HoldSums() // for good
		var all []*ledgerv1.Record
		for i := range 300 { // more than a transaction adds
			all = append(all, random(r, fmt.Sprint(i)))
			if i%7 == 0 {
				all[i] = fellBack(fmt.Sprint(i), noon)
			}
			keep(t, gone, all[i])
		}
		batches, err := gone.Unfolded(t.Context())
		require.NoError(t, err)
		require.Equal(t, len(all), batches)

		straight := open(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db")))
		keep(t, straight, all...)
		others := []*ledger.Ledger{open(t, dsn), open(t, dsn), open(t, dsn)}
		var reading sync.WaitGroup
		for _, other := range others {
			reading.Go(func() {
				if _, err := other.Health(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		reading.Wait()
		batches, err = gone.Unfolded(t.Context())
		require.NoError(t, err)
		require.Zero(t, batches)
		for _, other := range others {
			requireEqualSums(t, straight, other)
		}
	})
}

// requireEqualSums requires that two ledgers say the same of everything that sums answer.
func requireEqualSums(t *testing.T, want, got *ledger.Ledger) {
	t.Helper()
	requireSums(t, got)
	for _, of := range []func(l *ledger.Ledger) (any, error){
		func(l *ledger.Ledger) (any, error) { return l.Health(t.Context()) },
		func(l *ledger.Ledger) (any, error) {
			return l.Outcomes(t.Context(), adminapi.ListOptions{Filters: map[string]string{"width": "60"}})
		},
		func(l *ledger.Ledger) (any, error) {
			return l.Summary(t.Context(), adminapi.ListOptions{Filters: map[string]string{
				"start": fmt.Sprint(noon.AddDate(0, 0, -30).Unix())}})
		},
		func(l *ledger.Ledger) (any, error) {
			return l.SpentBy(t.Context(), "key/key_1", "key/key_2", "organization/acme", "project/acme/web")
		},
		func(l *ledger.Ledger) (any, error) {
			return l.Rows(t.Context(), ledger.Query{From: noon.AddDate(0, 0, -41).Truncate(24 * time.Hour),
				To: noon.AddDate(0, 0, 1).Truncate(24 * time.Hour), Width: 24 * time.Hour,
				GroupBy: []string{"api_key_id", "model", "provider", "batch"}})
		},
		func(l *ledger.Ledger) (any, error) {
			return l.Series(t.Context(), url.Values{"by": {"user"}, "width": {"1d"},
				"start": {fmt.Sprint(noon.AddDate(0, 0, -30).Unix())}})
		},
	} {
		wanted, err := of(want)
		require.NoError(t, err)
		found, err := of(got)
		require.NoError(t, err)
		require.Equal(t, wanted, found)
	}
}
