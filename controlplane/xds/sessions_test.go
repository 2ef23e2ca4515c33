package xds_test

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// TestAProviderWithTheRealtimeAPIHasAClusterForSessions holds that no credential of an attempt reaches the next one,
// and that a WebSocket goes over HTTP/1.1 also where TLS would negotiate HTTP/2.
func TestAProviderWithTheRealtimeAPIHasAClusterForSessions(t *testing.T) {
	provider := func(name, vendor string) *configv1.ResolvedProvider {
		return &configv1.ResolvedProvider{Name: name, Provider: &configv1.Provider{Name: name, Vendor: vendor},
			Credential: "c"}
	}
	in := xds.Input{Providers: []*configv1.ResolvedProvider{provider("o", "openai"), provider("a", "anthropic")}}
	resources, errs := xds.Build(in, xds.Options{Providers: all.Providers(),
		SystemCA: "/etc/ssl/certs/ca-certificates.crt"})
	require.Empty(t, errs)
	var sessions []*clusterv3.Cluster
	for _, r := range resources {
		if c, ok := r.Message.(*clusterv3.Cluster); ok && strings.Contains(c.GetName(), "/session/") {
			sessions = append(sessions, c)
		}
	}
	require.Len(t, sessions, 1)
	require.True(t, strings.HasPrefix(sessions[0].GetName(), "o/session/"))
	options := &httpv3.HttpProtocolOptions{}
	require.NoError(t, sessions[0].GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"].UnmarshalTo(options))
	require.NotNil(t, options.GetExplicitHttpConfig().GetHttpProtocolOptions())
	var filters []string
	for _, f := range options.GetHttpFilters() {
		filters = append(filters, f.GetName())
	}
	require.Equal(t, []string{"mg.strip", "mg.up", "envoy.filters.http.upstream_codec"}, filters)
	require.NotNil(t, sessions[0].GetTransportSocket())
}
