package extproc

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// TestModelsThatClientsMakeUpAreNoSeries asks a provider that takes any model for a hundred thousand.
func TestModelsThatClientsMakeUpAreNoSeries(t *testing.T) {
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: "openai"},
		Credential: "sk"}, all.Providers()["openai"])
	require.NoError(t, err)
	key := auth.Generate().Reveal()
	c := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"a": p}, Catalog: catalog.New(nil)},
	}
	c.Keyring = keyring(c, map[string]string{"k": key})
	c.Index()
	measured, err := telemetry.Start(t.Context(), telemetry.Options{Service: "test", Log: zap.NewNop()})
	require.NoError(t, err)
	m := newMetrics(measured.Registry, measured.Meter())
	env := &exchange.Env{Now: time.Now, NewID: func() string { return "id" }, Observer: m}
	header := exchange.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: chats},
		{Name: "authorization", Value: "Bearer " + key}}
	ask := func(i int) {
		x := exchange.New(env, c)
		x.RequestHeaders(context.Background(), header, false)
		x.RequestBody(context.Background(), []byte(hi(fmt.Sprint("a/made-up-", i), "")))
		x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "200"},
			{Name: "content-type", Value: "application/json"}},
			exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
		x.ResponseBody(context.Background(), []byte(unary), true)
		r := x.Close()
		m.observe(&r)
	}
	series := func() (n int) {
		families, err := prometheus.Gatherer(measured).Gather()
		require.NoError(t, err)
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	const all = 100_000
	for i := range all / 4 { // what is remembered of models, within bounds, is remembered then
		ask(i)
	}
	before, footing := series(), heap()
	for i := all / 4; i < all; i++ {
		ask(i)
	}
	require.Equal(t, before, series())
	require.Less(t, heap(), footing+8<<20)
	require.LessOrEqual(t, m.known.Len(), 2)
}

// Whatever the labels are, what is kept at hand of series is bounded.
func TestSeriesAtHandAreBounded(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), nil)
	r := &metering.Record{Provider: "a", Vendor: "openai", Operation: "chat/completions",
		Outcome: metering.OutcomeFinished, Status: 200}
	for i := range maxKnown + 10 {
		r.Label = fmt.Sprint(i)
		m.observe(r)
	}
	require.LessOrEqual(t, m.known.Len(), maxKnown)
}

func TestTypesOfErrorsAreBounded(t *testing.T) {
	for _, c := range []struct {
		outcome metering.Outcome
		status  int
		want    string
	}{
		{metering.OutcomeFinished, 200, ""},
		{metering.OutcomeRejected, 404, "404"},
		{metering.OutcomeFailed, 529, "529"},
		{metering.OutcomeFailed, 200, "failed"}, // within a stream
		{metering.OutcomeFailed, 999, "failed"},
		{metering.OutcomeTruncated, 200, "truncated"},
		{metering.OutcomeCancelled, 200, "cancelled"},
		{metering.OutcomeGateway, 503, "gateway"},
		{metering.OutcomeCut, 0, "cut"},
	} {
		require.Equal(t, c.want, errorType(c.outcome, c.status))
	}
}
