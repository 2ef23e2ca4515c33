package controlplane

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
)

func TestAControlPlaneKnowsWhoIsConnectedToAnother(t *testing.T) {
	t.Parallel()
	p := startPlane(t)
	other := p.another()
	knows := func(of *plane) []string {
		var roles []string
		for _, c := range of.DataPlane(t.Context()).Clients {
			roles = append(roles, c.Role)
		}
		return roles
	}
	subscribe[*clusterv3.Cluster](other, envoy.RoleEnvoy)
	subscribe[*clusterv3.Cluster](p, envoy.RoleExtProc)
	both := []string{"envoy", "extproc"}
	require.Eventually(t, func() bool { return len(knows(p)) == 2 && len(knows(other)) == 2 }, 20*time.Second,
		20*time.Millisecond)
	require.Equal(t, both, knows(p))
	require.Equal(t, both, knows(other))
	for _, c := range p.DataPlane(t.Context()).Clients {
		require.Equal(t, p.Status().Revision, c.Revision, c.Role)
	}
	// One that moves over is known to both for a moment, and counts once.
	subscribe[*clusterv3.Cluster](p, envoy.RoleEnvoy)
	require.Eventually(t, func() bool {
		told, err := p.client.Get(t.Context(), configstore.Replicas, clientv3.WithPrefix())
		return err == nil && len(told.Kvs) == 2 && len(p.clients()) == 2
	}, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, both, knows(p))

	p.etcd.Stop()
	require.Equal(t, both, knows(p), "without etcd it knows its own")
	require.Equal(t, []string{"envoy"}, knows(other))
}

func TestWhatAControlPlaneHasToldEndsWithIt(t *testing.T) {
	p := startPlane(t)
	told := func() int {
		found, err := p.client.Get(t.Context(), configstore.Replicas, clientv3.WithPrefix())
		require.NoError(t, err)
		return len(found.Kvs)
	}
	require.Eventually(t, func() bool { return told() == 1 }, 20*time.Second, 20*time.Millisecond)
	t.Run("a replica for a while", func(t *testing.T) {
		brief := *p
		brief.t = t
		brief.another()
		require.Eventually(t, func() bool { return told() == 2 }, 20*time.Second, 20*time.Millisecond)
	})
	require.Equal(t, 1, told())
}
