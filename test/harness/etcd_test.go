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

// TestMembersOfEtcdAreReplacedOneAfterTheOther holds what the tests of high availability rely on.
func TestMembersOfEtcdAreReplacedOneAfterTheOther(t *testing.T) {
	members := StartEtcds(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := members[0].Client(t)
	client.SetEndpoints(members[0].Endpoint(), members[1].Endpoint(), members[2].Endpoint())
	for _, e := range members {
		_, err := client.Put(ctx, "key", "value")
		require.NoError(t, err)
		e.Stop(t)
		r, err := client.Get(ctx, "key")
		require.NoError(t, err)
		require.Len(t, r.Kvs, 1)
		e.Restart(t)
		Eventually(t, "the member is back", func() error {
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := client.Status(soon, e.Endpoint())
			return err
		})
	}
}
