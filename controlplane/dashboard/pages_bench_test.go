package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	realledger "github.com/modelgate/modelgate/controlplane/ledger"
)

const (
	manyKeys = 100_000
	manyRows = 1_000_000
)

// BenchmarkPages measures pages over 100,000 keys and a million rows of a real ledger. Each is to take less than 50
// ms.
func BenchmarkPages(b *testing.B) {
	l, err := realledger.Open(b.Context(), "sqlite://"+filepath.Join(b.TempDir(), "ledger.db"), zap.NewNop())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.Close()) })
	fillLedger(b, l)
	bench := newBenchOver(b, l)
	key := bench.fillKeys(b)
	w := bench.owner(b)
	for _, path := range []string{
		"/", "/keys", "/keys?after=key_00050000", "/keys?q=99999", "/keys?organization=acme-7", "/keys/" + key, "/requests",
		"/requests?key=" + key, "/requests?model=team/fast",
		"/usage", "/usage?by=model", "/usage?by=api_key_id&range=7d", "/usage?by=model&measure=cost&range=30d",
		"/organizations", "/providers", "/models", "/audit", "/data-plane",
	} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if p := w.get(path); p.status != http.StatusOK {
					b.Fatal(p.status, text(p.body))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
		})
	}
}

// fillLedger records exchanges of the last thirty days.
func fillLedger(b *testing.B, l *realledger.Ledger) {
	b.Helper()
	now := time.Now()
	const atOnce = 20_000
	for from := 0; from < manyRows; from += atOnce {
		records := make([]*ledgerv1.Record, atOnce)
		for i := range records {
			n := from + i
			start := now.Add(-time.Duration(n) * 30 * 24 * time.Hour / manyRows)
			records[i] = &ledgerv1.Record{
				Id: fmt.Sprintf("%012d", n), RequestId: fmt.Sprintf("req_%d", n), Start: timestamppb.New(start),
				End: timestamppb.New(start.Add(time.Second)),
				Key: fmt.Sprintf("key_%08d", n%1000), Organization: fmt.Sprintf("acme-%d", n%20), Operation: "chat/completions",
				Model:    []string{"team/fast", "openai/gpt-4o", "claude/sonnet"}[n%3],
				Provider: []string{"openai", "claude"}[n%2], UpstreamModel: "m", Attempts: 1, Status: 200, Outcome: "finished",
				InputTokens: 1000, OutputTokens: 100, CostNanoUsd: 1_000_000, Priced: true, FirstByteMs: 100,
			}
		}
		require.NoError(b, l.Record(b.Context(), records))
	}
}

// fillKeys stores keys as the API would, and returns one of them.
func (b *bench) fillKeys(tb testing.TB) string {
	tb.Helper()
	keys := map[string]configv1.Object{}
	var ops []clientv3.Op
	var revision int64
	for i := range manyKeys {
		name := fmt.Sprintf("key_%08d", i)
		k := &configv1.Key{Name: name, DisplayName: "Service " + name, Hint: "abcd",
			Organization: fmt.Sprintf("acme-%d", i%20), Hash: make([]byte, 32),
			Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 60}}}
		keys[name] = k
		text, err := configv1.Marshal(k)
		require.NoError(tb, err)
		ops = append(ops, clientv3.OpPut("/modelgate/v1/keys/"+name, string(text)))
		if len(ops) == 100 || i == manyKeys-1 {
			r, err := b.etcd.Txn(context.Background()).Then(ops...).Commit()
			require.NoError(tb, err)
			ops, revision = ops[:0], r.Header.Revision
		}
	}
	b.plane.keys = func() (int64, map[string]configv1.Object) { return revision, keys }
	return "key_00000500"
}
