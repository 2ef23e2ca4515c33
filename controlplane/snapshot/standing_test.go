package snapshot

import (
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy"
)

func TestHowClientsStand(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.Publish(update(3, providerOf("a", 1)))
		e := b.connect(t, envoy.RoleEnvoy)
		e.node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40, Patch: 2},
		}}
		require.Empty(t, b.Clients(), "it has not said what it is")
		e.subscribe(resource.ClusterType)
		began := time.Now()
		e.takeAll()
		one := func() Client {
			synctest.Wait()
			require.Len(t, b.Clients(), 1)
			return b.Clients()[0]
		}
		require.Equal(t, Client{Node: "test", Role: envoy.RoleEnvoy, Version: "1.40.2", ConnectedAt: began, Revision: 3}, one())

		b.Publish(update(7, providerOf("a", 2)))
		r := e.next()
		require.True(t, one().Behind)
		require.EqualValues(t, 3, one().Revision)
		e.nack(r, "no good")
		e.takeAll()
		require.Equal(t, "no good", one().Refused, "also once it has what it got in its place")
		require.False(t, one().Behind)

		b.Publish(update(9, providerOf("a", 3)))
		e.takeAll()
		require.Empty(t, one().Refused)
		require.EqualValues(t, 9, one().Revision)
		e.cancel()
		synctest.Wait()
		require.Empty(t, b.Clients())
	})
}
