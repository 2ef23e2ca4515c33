package app

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/parts"
)

func TestWhatIsSaidOfStoresThatAreUnavailable(t *testing.T) {
	p := parts.New(zap.NewNop())
	shared := &troubles{}
	counters, err := limit.OpenRedis("redis://127.0.0.1:1")
	require.NoError(t, err)
	kept, err := limit.OpenRedis("redis://127.0.0.1:1")
	require.NoError(t, err)
	limits := Limits{Redis: counters, Share: 1, Division: limit.Division{Part: 1}, Timeout: time.Second}
	require.NotNil(t, limits.open(p, shared, zap.NewNop()))
	require.NotNil(t, Answers{Redis: kept}.open(p, shared, prometheus.NewRegistry(), zap.NewNop()))
	require.Len(t, *shared, 2)
	require.Eventually(t, func() bool { return shared.says() != "" }, 10*time.Second, time.Millisecond)
	require.Equal(t, "The Redis of limits does not answer: requests that have a limit are refused.", shared.says())
	require.ErrorContains(t, p.Stop(t.Context()), "tell the store of limits that this process ends")
}

func TestStoresOfOneProcessAreInMemory(t *testing.T) {
	p := parts.New(zap.NewNop())
	shared := &troubles{}
	require.NotNil(t, Limits{Share: 1, Division: limit.Division{Part: 1}}.open(p, shared, zap.NewNop()))
	require.Nil(t, Answers{}.open(p, shared, prometheus.NewRegistry(), zap.NewNop()))
	require.Empty(t, shared.says())
	require.NoError(t, p.Stop(t.Context()))
}
