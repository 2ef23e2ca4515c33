package exchange_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/limit"
)

func TestGatesOfProviders(t *testing.T) {
	const both = `{"model":"both","messages":[{"role":"user","content":"hi"}]}`
	one := func(pending uint32) *configv1.Concurrency {
		return &configv1.Concurrency{MaxRequests: 1, MaxPending: pending, MaxWait: durationpb.New(50 * time.Millisecond)}
	}
	t.Run("a full provider is passed over", func(t *testing.T) {
		m := newMeter(t, fullKey(), one(0), one(0))
		_, reply := m.chat(both)
		require.Equal(t, "a/first", reply.Plan.Targets[0].Cluster)
		second, reply := m.chat(both)
		require.Equal(t, "b/first", reply.Plan.Targets[0].Cluster)
		require.Equal(t, "a/retry", reply.Plan.Targets[1].Cluster)
		second.Close()
		_, reply = m.chat(both)
		require.Equal(t, "b/first", reply.Plan.Targets[0].Cluster, "the place was given back")
	})
	t.Run("the queue", func(t *testing.T) {
		m := newMeter(t, &configv1.Key{Name: "key_1"}, one(1))
		first, _ := m.chat(ask40)
		waiting, reply := m.chat(ask40)
		require.True(t, reply.Queue)
		active, _, bounded := m.env.Load("a")
		require.True(t, bounded)
		require.Equal(t, 1, active)
		_, _, bounded = m.env.Load("nobody")
		require.False(t, bounded)
		turn := make(chan exchange.Reply)
		go func() { turn <- waiting.Turn(t.Context()) }()
		first.Close()
		require.NotNil(t, (<-turn).Plan)
		late, _ := m.chat(ask40)
		reply = late.Turn(t.Context())
		require.Equal(t, 503, reply.Immediate.Status)
		require.Contains(t, string(reply.Immediate.Body), "server_is_overloaded")
		require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
		waiting.Close()
		_, reply = m.chat(ask40)
		require.NotNil(t, reply.Plan)
	})
	t.Run("the client leaves the queue", func(t *testing.T) {
		m := newMeter(t, fullKey(), one(1))
		first, _ := m.chat(ask40)
		waiting, _ := m.chat(ask40)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		require.Equal(t, exchange.Reply{Wait: true}, waiting.Turn(ctx))
		r := waiting.Close()
		require.False(t, r.Dispatched)
		require.Equal(t, []limit.Amounts{{}}, m.settled)
		first.Close()
		_, reply := m.chat(ask40)
		require.NotNil(t, reply.Plan)
	})
	t.Run("who is refused by a limit gives the place back", func(t *testing.T) {
		m := newMeter(t, &configv1.Key{Name: "key_1",
			Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1}}}, one(0))
		first, _ := m.chat(ask40)
		first.Close()
		refused, reply := m.chat(ask40)
		require.Equal(t, 429, reply.Immediate.Status)
		m.key = &configv1.Key{Name: "key_1"}
		m.configure()
		_, reply = m.chat(ask40)
		require.NotNil(t, reply.Plan)
		refused.Close()
	})
	t.Run("a retry moves on", func(t *testing.T) {
		m := newMeter(t, &configv1.Key{Name: "key_1"}, one(0), one(0))
		first, reply := m.chat(both)
		_, err := reply.Plan.Encode(2)
		require.NoError(t, err)
		second, reply := m.chat(both)
		require.Equal(t, "a/first", reply.Plan.Targets[0].Cluster, "the first attempt's place is free")
		third, reply := m.chat(both)
		require.True(t, reply.Queue, "the retry has the second's")
		first.Close()
		second.Close()
		third.Close()
		_, reply = m.chat(both)
		require.NotNil(t, reply.Plan)
		require.NotNil(t, first.Plan())
		_, err = first.Plan().Encode(2)
		require.Error(t, err, "of an exchange that has ended nothing goes out any more")
	})
}
