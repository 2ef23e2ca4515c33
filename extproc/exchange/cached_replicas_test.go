package exchange_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/respcache"
)

// cachingReplicas returns gateways that keep their answers in one Redis.
func cachingReplicas(t *testing.T, n int) (all []*meter) {
	server := redistest.Start(t)
	for range n {
		client, err := limit.OpenRedis(server.URL)
		require.NoError(t, err)
		remote := respcache.NewRedis(client, respcache.RedisOptions{Prefix: "mg", Timeout: 5 * time.Second,
			Failed: func() { t.Error("redis has failed") }, Log: zap.NewNop()})
		t.Cleanup(func() {
			_ = remote.Close(context.Background())
			_ = client.Close()
		})
		m := newMeter(t, &configv1.Key{Name: "key_1", Organization: "acme"})
		m.cacheIn(remote, everyones())
		all = append(all, m)
	}
	return all
}

// await returns the reply to a request after all of its waiting.
func (m *meter) await(ctx context.Context, body string) (*exchange.Exchange, exchange.Reply) {
	x, reply := m.chat(body)
	for reply.Queue {
		reply = x.Turn(ctx)
	}
	return x, reply
}

// TestEqualRequestsToReplicasAtOnceAskOnce: of 500 to four replicas one is sent, and paid for.
func TestEqualRequestsToReplicasAtOnceAskOnce(t *testing.T) {
	const many, each = 4, 125
	type sender struct {
		*meter
		x *exchange.Exchange
	}
	sent, got := make(chan sender, many*each), make(chan string, many*each)
	replicas := cachingReplicas(t, many)
	var all sync.WaitGroup
	for _, m := range replicas {
		for range each {
			all.Go(func() {
				x, reply := m.await(t.Context(), ask40)
				if reply.Plan != nil {
					sent <- sender{m, x}
					return
				}
				r := x.Close()
				got <- fmt.Sprint(r.Cache.Result, " ", r.Cost, " ", string(reply.Immediate.Body))
			})
		}
	}
	first := <-sent
	body, record := first.complete(first.x, "application/json", whole)
	require.NotZero(t, record.Cost)
	all.Wait()
	require.Empty(t, sent)
	counts := map[string]int{}
	for range len(got) {
		counts[<-got]++
	}
	require.Equal(t, many*each-1, counts["shared 0 "+body]+counts["hit 0 "+body], counts)
	require.GreaterOrEqual(t, counts["shared 0 "+body], many-1, counts)
	costs, records := int64(0), 0
	for _, m := range replicas {
		records += len(m.ended)
		for _, r := range m.ended {
			costs += r.GetCostNanoUsd()
		}
	}
	require.Equal(t, many*each, records, "all are in the ledger")
	require.EqualValues(t, record.Cost, costs)
}

// Who waits for another replica leaves at once, and does not hold up its own replica.
func TestAFollowerOfAnotherReplicaThatLeaves(t *testing.T) {
	replicas := cachingReplicas(t, 2)
	first, reply := replicas[0].await(t.Context(), ask40)
	require.NotNil(t, reply.Plan)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x, reply := replicas[1].await(ctx, ask40)
	require.Equal(t, exchange.Reply{Wait: true}, reply)
	x.Close()
	replicas[0].complete(first, "application/json", whole)
	x, reply = replicas[1].await(t.Context(), ask40)
	require.NotNil(t, reply.Immediate)
	require.Zero(t, x.Close().Cost)
}
