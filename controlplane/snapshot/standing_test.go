package snapshot

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/prometheus/client_golang/prometheus"
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
		require.Equal(t, Client{Node: "test", Role: envoy.RoleEnvoy, Version: "1.40.2", ConnectedAt: began, Revision: 3},
			one())

		b.Publish(update(7, providerOf("a", 2)))
		r := e.next()
		require.True(t, one().Behind)
		require.EqualValues(t, 1, ailing(t, b, "behind"))
		require.EqualValues(t, 3, one().Revision)
		e.nack(r, "no good")
		e.takeAll()
		require.Equal(t, "no good", one().Refused, "also once it has what it got in its place")
		require.EqualValues(t, 1, ailing(t, b, "refused"))
		require.EqualValues(t, 1, measured(t, b, "modelgate_config_errors", "kind", "Provider"))
		require.False(t, one().Behind)

		b.Publish(update(9, providerOf("a", 3)))
		e.takeAll()
		require.Empty(t, one().Refused)
		require.Zero(t, ailing(t, b, "refused"))
		require.Zero(t, ailing(t, b, "behind"))
		require.Zero(t, measured(t, b, "modelgate_config_errors", "kind", "Provider"))
		require.EqualValues(t, 9, one().Revision)
		e.cancel()
		synctest.Wait()
		require.Empty(t, b.Clients())
	})
}

func ailing(t *testing.T, b *bench, state string) float64 {
	t.Helper()
	return measured(t, b, "modelgate_xds_clients_ailing", "role", envoy.RoleEnvoy, "state", state)
}

// measured returns the sample of a metric of the publisher's status that has the labels.
func measured(t *testing.T, b *bench, name string, labels ...string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(newStatusCollector(b.Publisher)))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName(), l.GetValue())
			}
			if f.GetName() == name && slices.Equal(has, labels) {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s %v", name, labels)
	return 0
}
