package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

// TestEtcdSurvivesBeingKilled holds what the crash test relies on.
func TestEtcdSurvivesBeingKilled(t *testing.T) {
	e := StartEtcd(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := e.Client(t)
	for range 3 {
		_, err := client.Put(ctx, "key", "value")
		require.NoError(t, err)
		e.Kill()
		e.Restart(t)
		r, err := client.Get(ctx, "key")
		require.NoError(t, err)
		require.Len(t, r.Kvs, 1)
	}
}
