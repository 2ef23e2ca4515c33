package exchange_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

// paced returns a gateway that has kept a stream, and what the client got of it.
func paced(t *testing.T, pace uint32) (m *meter, first string) {
	t.Helper()
	cache := everyones()
	cache.Pace = pace
	m = caching(t, cache)
	x, _ := m.chat(stream40)
	first, _ = m.complete(x, "text/event-stream", strings.Repeat(chunkOf("hello"), 7)+ended+usage11+over)
	return m, first
}

// replayed takes a request to the point at which Envoy has answered it.
func replayed(m *meter) (*exchange.Exchange, exchange.Reply) {
	x, reply := m.chat(stream40)
	require.Nil(m.t, reply.Immediate)
	require.Equal(m.t, envoy.KindReplayed, reply.Plan.Kind)
	require.Empty(m.t, reply.Plan.Targets)
	return x, x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "200"}, {Name: "content-length", Value: "1"},
		{Name: "content-type", Value: "text/plain"}}, exchange.Facts{CodeDetails: envoy.CodeDetailsOwn}, false)
}

func TestAKeptStreamIsReplayedAtAPace(t *testing.T) {
	for pace, c := range map[uint32]struct {
		every time.Duration
		many  int
	}{10: {100 * time.Millisecond, 1}, 50: {20 * time.Millisecond, 1}, 100: {20 * time.Millisecond, 2},
		1000: {32 * time.Millisecond, 32}} {
		m, first := paced(t, pace)
		m.now = m.now.Add(time.Minute)
		x, head := replayed(m)
		told := map[string]string{}
		for _, h := range head.Set {
			told[h.Name] = h.Value
		}
		require.Equal(t, map[string]string{"content-type": "text/event-stream; charset=utf-8", "x-modelgate-cache": "hit",
			"age": "60", "x-modelgate-provider": "a", "x-request-id": "req"}, told)
		require.Contains(t, head.Remove, "content-length")
		got := ""
		reply := x.ResponseBody(t.Context(), []byte("\n"), true)
		for got += string(reply.Body); !reply.End; got += string(reply.Body) {
			require.Equal(t, c.every, reply.Patience)
			require.Equal(t, c.many, strings.Count(string(reply.Body), "\n\n"))
			reply, _ = x.Release()
		}
		require.Zero(t, reply.Patience)
		require.Equal(t, first, got)
		r := x.Close()
		require.Equal(t, metering.OutcomeFinished, r.Outcome)
		require.EqualValues(t, len(first), r.Sent)
		require.Equal(t, metering.CacheHit, r.Cache.Result)
		require.Zero(t, r.Cost)
		require.Len(t, m.begun, 1, "nothing was sent to a provider")
		require.Len(t, m.ended, 2, "it is in the ledger")
	}
}

func TestAReplayThatTheClientLeaves(t *testing.T) {
	m, _ := paced(t, 10)
	m.key.Limits = []*configv1.Limit{{Domain: "concurrency", RequestsPerUnit: 1}}
	m.configure()
	x, _ := replayed(m)
	require.False(t, x.ResponseBody(t.Context(), []byte("\n"), true).End)
	require.EqualValues(t, 1, x.Close().Reserved[limit.Concurrency])
	x, _ = replayed(m)
	require.False(t, x.ResponseBody(t.Context(), []byte("\n"), true).End)
	r := x.Close()
	require.Equal(t, metering.OutcomeCut, r.Outcome)
	require.Zero(t, r.Cost)
	require.Zero(t, r.Usage)
}

func TestWhatIsNotReplayed(t *testing.T) {
	m, _ := paced(t, 10)
	x, reply := m.chat(stream40)
	require.Equal(t, envoy.KindReplayed, reply.Plan.Kind)
	x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "503"}},
		exchange.Facts{CodeDetails: "no_healthy_upstream"}, false)
	require.Equal(t, "down", string(x.ResponseBody(t.Context(), []byte("down"), true).Body), "an error of Envoy passes")
	require.Equal(t, metering.OutcomeGateway, x.Close().Outcome)

	x, _ = m.chat(ask40)
	m.complete(x, "application/json", whole)
	got, _ := m.kept(chats, ask40)
	require.NotNil(t, got, "an answer that is not streamed comes at once")
}
