package limit

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/modelgate/modelgate/internal/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests that are parallel wait for the clock of a server.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// newRedis returns a limiter that ends with the test.
func newRedis(t testing.TB, server *redistest.Server, o RedisOptions) *Redis {
	client, err := OpenRedis(server.URL)
	require.NoError(t, err)
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second // the machine may be busy
	}
	o.Log = zaptest.NewLogger(t)
	r := NewRedis(client, o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.Close(ctx) // the server may be stopped
		require.NoError(t, client.Close())
	})
	return r
}

// flushed waits until the store has been told all.
func flushed(t testing.TB, l Limiter) {
	t.Helper()
	r, ok := l.(*Redis)
	if !ok {
		return
	}
	require.Eventually(t, r.unsettled.nothing, 10*time.Second, time.Millisecond)
}

// nothing says whether nothing is owed.
func (o *unsettled) nothing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	stale := slices.ContainsFunc(o.retired, func(l *lease) bool { return len(l.stale) > 0 })
	return len(o.sending)+len(o.current.delta)+len(o.rates)+len(o.spent) == 0 && !stale
}

// sound checks what the limiter keeps: nothing is below zero, and sums are the sums of their parts.
func sound(t testing.TB, l Limiter) {
	t.Helper()
	switch l := l.(type) {
	case *memory:
		for i := range l.shards {
			s := &l.shards[i]
			s.mu.Lock()
			for _, c := range s.table {
				if c == nil {
					continue
				}
				sum := c.sum
				for i, slot := range c.slots {
					require.Positive(t, slot.amount)
					require.True(t, i == 0 || slot.index > c.slots[i-1].index)
					sum -= slot.amount
				}
				require.True(t, c.window.calendar() || sum == 0, "the sum of slots")
				require.GreaterOrEqual(t, c.sum, int64(0))
				require.GreaterOrEqual(t, c.held, int64(0))
				require.LessOrEqual(t, len(c.slots), countedSlots)
			}
			s.mu.Unlock()
		}
	case *Redis:
		soundStore(t, l)
	}
}

func soundStore(t testing.TB, r *Redis) {
	ctx := context.Background()
	keys, err := r.client.Keys(ctx, "{"+r.o.Prefix+"}:*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		kind := strings.Split(key, ":")[1]
		if kind == "batch" || kind == "leases" || kind == "store" {
			continue
		}
		ttl, err := r.client.TTL(ctx, key).Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(-1), ttl, "%s has no end", key)
		h, err := r.client.HGetAll(ctx, key).Result()
		require.NoError(t, err)
		var sum int64
		for field, value := range h {
			n, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, int64(0), "%s %s", key, field)
			if strings.Trim(field, "0123456789") == "" {
				sum += n
			}
		}
		if _, err := strconv.Atoi(kind); err == nil && len(h) > 0 {
			require.Equal(t, h["s"], strconv.FormatInt(sum, 10), key)
			require.LessOrEqual(t, len(h), countedSlots+3)
		}
	}
}

// over runs a test over every kind of limiter. Of those in memory the time is that of a bubble.
func over(t *testing.T, test func(t *testing.T, l Limiter)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, NewMemory(Options{})) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, newRedis(t, redistest.Start(t), RedisOptions{}))
	})
}

// newCluster starts a Redis Cluster of one server.
func newCluster(t *testing.T) *redistest.Server {
	s := redistest.Start(t, "--cluster-enabled", "yes")
	o, err := redis.ParseURL(s.URL)
	require.NoError(t, err)
	admin := redis.NewClient(o)
	defer admin.Close()
	require.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool { return admin.Set(t.Context(), "a", 1, 0).Err() == nil }, 10*time.Second,
		5*time.Millisecond)
	s.URL += "?addr=" + o.Addr
	return s
}
