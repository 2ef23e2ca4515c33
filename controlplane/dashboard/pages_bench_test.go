package dashboard_test

import (
	"context"
	"flag"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	realledger "github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/ledgertest"
	"github.com/modelgate/modelgate/internal/pgtest"
)

// TestMain starts PostgreSQL for benchmarks alone: no test of this package uses it.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	os.Exit(pgtest.Run(m))
}

const manyKeys = 100_000

// BenchmarkPagesSQLite and BenchmarkPagesPostgreSQL measure pages over 100,000 stored keys and as many exchanges of 30
// days as such a ledger is to bear, of 1,000 keys and 1,000 users. Each page is to take less than 50 ms.
func BenchmarkPagesSQLite(b *testing.B) {
	benchmarkPages(b, "sqlite://"+filepath.ToSlash(filepath.Join(b.TempDir(), "ledger.db")), 1_000_000)
}

// BenchmarkPagesPostgreSQL has ten times the exchanges.
func BenchmarkPagesPostgreSQL(b *testing.B) { benchmarkPages(b, pgtest.Start(b), 10_000_000) }

func benchmarkPages(b *testing.B, dsn string, exchanges int) {
	l, err := realledger.Open(b.Context(), dsn, zap.NewNop())
	require.NoError(b, err)
	require.NoError(b, l.Close())
	ledgertest.Fill(b, dsn, exchanges, time.Now())
	l, err = realledger.Open(b.Context(), dsn, zap.NewNop()) // counts the outcomes
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.Close()) })
	begun := time.Now()
	require.NoError(b, l.Tally(b.Context(), true)) // as it does in the background
	b.Logf("%d exchanges were tallied in %s", exchanges, time.Since(begun).Round(time.Millisecond))
	bench := newBenchOver(b, l)
	bench.fillKeys(b)
	bench.fillNames(b)
	w := bench.owner(b)
	key, model := ledgertest.Key(7), url.QueryEscape(ledgertest.Model(1))
	b.Run("/requests, a poll of live rows", func(b *testing.B) { benchmarkPoll(b, w) })
	paths := requestPages(key, model)
	for _, path := range append(paths,
		"/", "/?range=15m", "/?range=6h&compare=true", "/?range=7d&compare=true", "/?range=30d",
		"/usage", "/usage?by=model&range=1h", "/usage?by=provider&range=7d&measure=cost", "/usage?by=model&range=90d",
		"/usage?by=key", "/usage?by=key&range=7d", "/usage?by=key&range=30d&measure=cost", "/usage?by=key&range=15m",
		"/usage?by=user", "/usage?by=user&range=7d", "/usage?by=user&range=30d", "/usage?by=user&range=15m",
		"/usage?by=organization&range=7d", "/usage?by=project&range=30d", "/usage?by=organization&range=1h",
		"/usage/cache", "/usage/cache?range=30d",
		"/usage?range=24h&key="+key, "/usage?by=model&range=30d&user="+ledgertest.User(7),
		"/keys", "/keys?after=key_00050000", "/keys?q=99999", "/keys?organization=acme-7", "/organizations", "/providers",
		"/models", "/audit", "/data-plane",
	) {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if p := w.get(path); p.status != http.StatusOK || strings.Contains(p.body, "There is no ") {
					b.Fatal(p.status, text(p.body))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
		})
	}
}

// benchmarkPoll measures what a viewer of the live request log costs every two seconds, while nothing happens.
func benchmarkPoll(b *testing.B, w *browser) {
	poll := regexp.MustCompile(`hx-get="([^"]+)"`).FindStringSubmatch(w.get("/requests?live=true").body)
	require.NotNil(b, poll)
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, w.bench.url+html.UnescapeString(poll[1]),
			http.NoBody)
		require.NoError(b, err)
		r.Header.Set("HX-Request", "true")
		r.Header.Set("HX-Target", "rows")
		require.Equal(b, http.StatusNoContent, w.do(r).status)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
}

// requestPages are those of the request log. Of some filters it has many requests, of others few, or none.
func requestPages(key, model string) []string {
	const month = "/requests?range=30d"
	user, provider := ledgertest.User(7), ledgertest.Provider(2) // which does not serve every model
	return []string{
		"/requests", "/requests?range=15m", "/requests?range=90d", "/requests?live=true",
		month + "&key=" + key, month + "&model=" + model, month + "&provider=" + provider, month + "&user=" + user,
		month + "&organization=" + ledgertest.Organization(3), month + "&key_name=service",
		month + "&outcome=error", month + "&outcome=served", month +
			"&outcome=error&organization=" + ledgertest.Organization(3),
		month + "&status=502&model=" + model, month + "&min_duration_ms=1490", month + "&request_id=req-77777",
		// Nothing is found.
		month + "&user=nobody", month + "&user=" + user + "&min_cost_usd=1", month + "&min_cost_usd=1",
		month + "&provider=" + provider + "&model=" + url.QueryEscape(ledgertest.Model(0)), month + "&status=404",
		month + "&provider=" + provider + "&user=nobody", month + "&refused_by=key", month + "&request_id=nothing",
		month + "&organization=" + ledgertest.Organization(3) + "&min_duration_ms=100000",
		"/requests/bench-77777",
	}
}

// fillNames stores the organizations and providers of the exchanges: a page with a filter that names none asks for
// nothing.
func (b *bench) fillNames(tb testing.TB) {
	tb.Helper()
	put := func(path string, o configv1.Object) {
		text, err := configv1.Marshal(o)
		require.NoError(tb, err)
		_, err = b.etcd.Put(context.Background(), "/modelgate/v1/"+path+"/"+o.GetName(), string(text))
		require.NoError(tb, err)
	}
	for i := range ledgertest.Organizations {
		put("organizations", &configv1.Organization{Name: ledgertest.Organization(i)})
	}
	for i := range ledgertest.Providers {
		put("providers", &configv1.Provider{Name: ledgertest.Provider(i), Vendor: "openai"})
	}
}

// fillKeys stores keys as the API would.
func (b *bench) fillKeys(tb testing.TB) {
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
}
