package metering_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/usage"
)

// An answer of a response cache has a name in every sum by provider.
func TestAnAnswerOfTheCacheHasAName(t *testing.T) {
	for result, want := range map[metering.CacheResult]string{metering.CacheHit: usage.ResponseCache,
		metering.CacheShared: usage.ResponseCache, metering.CacheSimilar: usage.ResponseCache, metering.CacheMiss: ""} {
		r := metering.Record{Cache: &metering.Cache{Name: "c", Result: result}}
		require.Equal(t, want, r.Entry().GetProvider(), result)
	}
	r := metering.Record{}
	require.Empty(t, r.Entry().GetProvider(), "a request that failed before")
}
