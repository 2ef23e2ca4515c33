package usage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/usage"
)

// A keeper is a ledger in memory.
type keeper struct {
	ledgerv1.LedgerClient

	mu      sync.Mutex // guards what follows
	away    bool
	calls   int
	largest int
	records map[string]*ledgerv1.Record
	twice   int
	reports []*ledgerv1.SpoolReport
}

func newKeeper() *keeper { return &keeper{records: map[string]*ledgerv1.Record{}} }

func (k *keeper) keep(request *ledgerv1.RecordRequest) (*ledgerv1.RecordAnswer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.away {
		return nil, errors.New("away")
	}
	if r := request.GetSpool(); r != nil {
		k.reports = append(k.reports, r)
	}
	k.largest = max(k.largest, len(request.GetRecords()))
	for _, r := range request.GetRecords() {
		if k.records[r.GetId()] != nil {
			k.twice++
			continue
		}
		k.records[r.GetId()] = r
	}
	return &ledgerv1.RecordAnswer{}, nil
}

func (k *keeper) Record(_ context.Context, request *ledgerv1.RecordRequest,
	_ ...grpc.CallOption) (*ledgerv1.RecordAnswer, error) {
	return k.keep(request)
}

func (k *keeper) set(away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = away
}

func (k *keeper) ids() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.records)
}

// told returns how often the ledger was asked, and the first and the last report.
func (k *keeper) told() (calls int, first, last *ledgerv1.SpoolReport) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.reports); n > 0 {
		first, last = k.reports[0], k.reports[n-1]
	}
	return k.calls, first, last
}

func rec(id string, tokens int64) *ledgerv1.Record {
	return &ledgerv1.Record{Id: id, Key: "key_1", Model: "echo/one", Outcome: "finished", OutputTokens: tokens,
		CostNanoUsd: 10 * tokens}
}

func options(dir string) usage.SpoolOptions { return usage.SpoolOptions{Dir: dir, Log: zap.NewNop()} }

func open(t testing.TB, o usage.SpoolOptions) *usage.DiskSpool {
	t.Helper()
	s, err := usage.OpenSpool(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// flush ships what there is.
func flush(s usage.Spool, to ledgerv1.LedgerClient) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Run(ctx, to)
}

func TestWhatEndedIsShippedOnceAndInOrder(t *testing.T) {
	s, k := open(t, options(t.TempDir())), newKeeper()
	for i := range 2500 {
		id := fmt.Sprint("r", i)
		s.Begin(rec(id, 1))
		s.End(rec(id, 2))
	}
	s.Begin(rec("still going", 1))
	flush(s, k)
	require.Equal(t, 2500, k.ids())
	require.Equal(t, 1000, k.largest)
	require.Equal(t, int64(2), k.records["r7"].GetOutputTokens())
	calls := k.calls
	flush(s, k)
	require.Equal(t, calls, k.calls, "there is nothing more")
}

func TestWhatWasShippedIsNotShippedAgainAfterARestart(t *testing.T) {
	dir, k := t.TempDir(), newKeeper()
	s := open(t, options(dir))
	s.End(rec("a", 1))
	flush(s, k)
	s.End(rec("b", 1))
	require.NoError(t, s.Close())
	flush(open(t, options(dir)), k)
	require.Equal(t, 2, k.ids())
	require.Zero(t, k.twice)
}

func TestWhatOnlyBeganIsInterrupted(t *testing.T) {
	dir, k := t.TempDir(), newKeeper()
	s := open(t, options(dir))
	s.Begin(rec("a", 5))
	s.Begin(rec("b", 6))
	s.End(rec("b", 7))
	require.NoError(t, s.Close())
	for range 2 { // also where the process ends again before it ships
		s = open(t, options(dir))
		require.NoError(t, s.Close())
	}
	flush(open(t, options(dir)), k)
	require.Equal(t, "interrupted", k.records["a"].GetOutcome())
	require.Equal(t, int64(5), k.records["a"].GetOutputTokens())
	require.Equal(t, "finished", k.records["b"].GetOutcome())
	require.Equal(t, int64(7), k.records["b"].GetOutputTokens())
	require.Zero(t, k.twice)
}

func TestASecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options(dir))
	_, err := usage.OpenSpool(options(dir))
	require.ErrorContains(t, err, "another process")
	require.NoError(t, s.Close())
	open(t, options(dir))
}

func TestSegmentsAreRemovedThoughOneExchangeGoesOn(t *testing.T) {
	o := options(t.TempDir())
	o.SegmentBytes = 1 // the least there is
	s, k := open(t, o), newKeeper()
	s.Begin(rec("long", 3))
	for i := range 3000 {
		s.End(rec(fmt.Sprint("r", i), 1))
		if i%500 == 0 {
			flush(s, k)
		}
	}
	flush(s, k)
	files, err := filepath.Glob(filepath.Join(o.Dir, "*.spool"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 2)
	require.NoError(t, s.Close())
	s = open(t, o)
	flush(s, k)
	require.Equal(t, "interrupted", k.records["long"].GetOutcome())
	require.Equal(t, 3001, k.ids())
	require.Zero(t, k.twice)
}

func TestAnEndMayBeNoted(t *testing.T) {
	for name, r := range map[string]*ledgerv1.Record{
		"with text that is no UTF-8": {Id: "a", User: "a\xff\xfeb"},
		"with a model without end":   {Id: "a", Model: strings.Repeat("m", 1<<20), User: strings.Repeat("ü", 1<<19)},
	} {
		t.Run(name, func(t *testing.T) {
			s, k := open(t, options(t.TempDir())), newKeeper()
			before := proto.CloneOf(r)
			s.End(r)
			require.True(t, proto.Equal(before, r), "it is the caller's")
			flush(s, k)
			require.NotNil(t, k.records["a"])
		})
	}
}

func TestWhatHasNoIdIsCounted(t *testing.T) {
	o := options(t.TempDir())
	registry := prometheus.NewRegistry()
	o.Registerer = registry
	s, k := open(t, o), newKeeper()
	s.End(rec("", 1))
	s.End(rec("a", 1))
	flush(s, k)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP modelgate_ledger_dropped_total Records that could not be kept, of exchanges that began or ended: what they cost is not charged.
# TYPE modelgate_ledger_dropped_total counter
modelgate_ledger_dropped_total 1
# HELP modelgate_ledger_shipped_total Records that the ledger has acknowledged.
# TYPE modelgate_ledger_shipped_total counter
modelgate_ledger_shipped_total 1
# HELP modelgate_ledger_backlog_records Records that wait to be shipped to the ledger.
# TYPE modelgate_ledger_backlog_records gauge
modelgate_ledger_backlog_records 0
`), "modelgate_ledger_dropped_total", "modelgate_ledger_shipped_total", "modelgate_ledger_backlog_records"))
}

func TestAFullSpoolWaitsAndLosesNothing(t *testing.T) {
	o := options(t.TempDir())
	o.MaxBytes, o.Process = 40_000, "p"
	synctest.Test(t, func(t *testing.T) {
		s, err := usage.OpenSpool(o)
		require.NoError(t, err)
		k, began := newKeeper(), time.Now()
		k.set(true)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx, k) })
		for i := range 2000 { // several times what fits
			s.End(rec(fmt.Sprint("r", i), 1))
		}
		time.Sleep(time.Minute)
		require.Zero(t, k.ids())
		require.Less(t, k.calls, 30, "it is asked less and less often")
		k.set(false)
		time.Sleep(time.Minute)
		require.Equal(t, 2000, k.ids())
		require.Zero(t, k.twice)
		_, first, last := k.told()
		require.Equal(t, []any{"the spool has reached its bound", began.Unix()},
			[]any{first.GetTrouble(), first.GetTroubleSince().GetSeconds()}, "not since it could be reported")
		require.Equal(t, []any{"p", "", int64(0)}, []any{last.GetProcess(), last.GetTrouble(), last.GetDropped()})
		cancel()
		running.Wait()
		require.NoError(t, s.Close())
	})
}

func TestTheLedgerGetsRecordsWithinASecondAndTheRestAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := usage.OpenSpool(options(dir))
		require.NoError(t, err)
		k := newKeeper()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx, k) })
		synctest.Wait()
		s.End(rec("a", 1))
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, 1, k.ids())
		for i := range 1000 {
			s.End(rec(fmt.Sprint("b", i), 1))
		}
		time.Sleep(time.Millisecond)
		require.Equal(t, 1001, k.ids(), "a full batch does not wait")
		s.End(rec("c", 1))
		cancel()
		running.Wait()
		require.Equal(t, 1002, k.ids())
		require.NoError(t, s.Close())
	})
}

func TestAFileThatIsCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options(dir))
	for i := range 4 {
		s.Begin(rec(fmt.Sprint("r", i), 1))
		s.End(rec(fmt.Sprint("r", i), 2))
	}
	s.Begin(rec("last", 1))
	require.NoError(t, s.Close())
	path, whole := onlySegment(t, dir)
	before := 0
	for cut := range len(whole) + 1 {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		k := newKeeper()
		s := open(t, options(dir))
		flush(s, k)
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, k.ids(), before, "cut at %d", cut)
		before = k.ids()
		for id, r := range k.records {
			require.Contains(t, []string{"finished", "interrupted"}, r.GetOutcome(), id)
			require.Equal(t, r.GetOutcome() == "finished", r.GetOutputTokens() == 2, id)
		}
	}
	require.Equal(t, 5, before)
}

func TestAByteThatChangesCostsOneRecordAtMost(t *testing.T) {
	dir := t.TempDir()
	s := open(t, options(dir))
	for i := range 5 {
		s.End(rec(fmt.Sprint("r", i), 2))
	}
	require.NoError(t, s.Close())
	path, whole := onlySegment(t, dir)
	const header = 12
	for at := header; at < len(whole); at++ {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o700))
		changed := append([]byte(nil), whole...)
		changed[at] ^= byte(1 + rand.IntN(255))
		require.NoError(t, os.WriteFile(path, changed, 0o600))
		k := newKeeper()
		s := open(t, options(dir))
		flush(s, k)
		require.NoError(t, s.Close())
		require.Equal(t, 4, k.ids(), "changed at %d", at)
		for id, r := range k.records {
			require.True(t, proto.Equal(rec(id, 2), r))
		}
	}
}

func onlySegment(t *testing.T, dir string) (string, []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	return files[0], data
}

func TestManyAtOnce(t *testing.T) {
	o := options(t.TempDir())
	o.SegmentBytes = 1
	s, k := open(t, o), newKeeper()
	ctx, cancel := context.WithCancel(t.Context())
	var shipping, writing sync.WaitGroup
	shipping.Go(func() { s.Run(ctx, k) })
	for w := range 8 {
		writing.Go(func() {
			for i := range 1000 {
				id := fmt.Sprint(w, "/", i)
				s.Begin(rec(id, 1))
				s.End(rec(id, 2))
			}
		})
	}
	writing.Wait()
	cancel()
	shipping.Wait()
	require.Equal(t, 8000, k.ids())
	require.Zero(t, k.twice)
}

func TestWhatASpoolHeldIsReplayed(t *testing.T) {
	replayed := func(s *usage.DiskSpool) bool {
		select {
		case <-s.Replayed():
			return true
		default:
			return false
		}
	}
	dir, k := t.TempDir(), newKeeper()
	s := open(t, options(dir))
	require.True(t, replayed(s), "there was nothing")
	s.End(rec("a", 1))
	s.Begin(rec("b", 1))
	require.NoError(t, s.Close())

	s = open(t, options(dir))
	require.False(t, replayed(s))
	s.End(rec("c", 1))
	k.set(true)
	flush(s, k)
	require.False(t, replayed(s), "the ledger is away")
	k.set(false)
	flush(s, k)
	require.True(t, replayed(s))
	require.Equal(t, 3, k.ids())
	require.NoError(t, s.Close())
	require.True(t, replayed(open(t, options(dir))), "all of it was shipped before")
}

// TestAHurryEndsThePauseAfterAFailure: whoever has just heard from the ledger does not wait for the next try.
func TestAHurryEndsThePauseAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, k := t.TempDir(), newKeeper()
		s := open(t, options(dir))
		s.End(rec("a", 1))
		require.NoError(t, s.Close())
		s = open(t, options(dir))
		k.set(true)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx, k) })
		time.Sleep(time.Minute) // of the bubble
		k.set(false)
		synctest.Wait()
		require.Zero(t, k.ids())
		s.Hurry()
		synctest.Wait()
		require.Equal(t, 1, k.ids())
		stop()
		running.Wait()
		require.NoError(t, s.Close())
	})
}

// A segment of which a loss of power left only reserved space held nothing.
func TestASegmentOfZerosHoldsNothing(t *testing.T) {
	o := options(t.TempDir())
	path := filepath.Join(o.Dir, "0000000000000001.spool")
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
	s, k := open(t, o), newKeeper()
	s.End(rec("a", 1))
	flush(s, k)
	require.Equal(t, 1, k.ids())
	unreadable, err := filepath.Glob(filepath.Join(o.Dir, "*.unreadable"))
	require.NoError(t, err)
	require.Empty(t, unreadable)
}
