package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// unpack returns the message in an Any.
func unpack[M proto.Message](t *testing.T, m M, a *anypb.Any) M {
	t.Helper()
	require.NoError(t, a.UnmarshalTo(m))
	return m
}

func alone(t *testing.T) *bootstrapv3.Bootstrap {
	t.Helper()
	text, err := renderEnvoy(`/tmp/a "b"`, "/tmp/admin.sock", "127.0.0.1:9000", "")
	require.NoError(t, err)
	json, err := yaml.YAMLToJSONStrict(text)
	require.NoError(t, err)
	var b bootstrapv3.Bootstrap
	require.NoError(t, protojson.Unmarshal(json, &b))
	require.NoError(t, b.ValidateAll())
	return &b
}

// gateway returns the listener and the cluster that the gateway builds for what is measured.
func gateway(t *testing.T) (*listenerv3.Listener, *clusterv3.Cluster) {
	t.Helper()
	built, errs := xds.Build(xds.Input{
		Providers: []*configv1.ResolvedProvider{{
			Name:     providerName,
			Provider: &configv1.Provider{Name: providerName, Vendor: "openai", Endpoint: "http://127.0.0.1:9000/v1"},
		}},
		Gateways: []*configv1.Gateway{{Name: "default", Address: "127.0.0.1"}},
	}, xds.Options{Providers: map[string]provider.Provider{"openai": {Name: "openai"}}})
	for _, err := range errs {
		t.Log(err) // what the objects refer to is not there
	}
	var l *listenerv3.Listener
	var c *clusterv3.Cluster
	for _, r := range built {
		switch m := r.Message.(type) {
		case *listenerv3.Listener:
			l = m
		case *clusterv3.Cluster:
			if strings.HasPrefix(m.GetName(), envoy.FirstCluster(providerName)) {
				c = m
			}
		}
	}
	require.NotNil(t, l)
	require.NotNil(t, c)
	return l, c
}

// TestEnvoyAloneHandlesConnectionsAsTheGatewayDoes keeps the comparison fair: the two must differ in nothing but what
// the gateway is.
func TestEnvoyAloneHandlesConnectionsAsTheGatewayDoes(t *testing.T) {
	b := alone(t)
	theirs, theirCluster := gateway(t)
	ours, ourCluster := b.GetStaticResources().GetListeners()[0], b.GetStaticResources().GetClusters()[0]

	require.Empty(t, cmp.Diff(manager(t, theirs), manager(t, ours), protocmp.Transform(),
		protocmp.IgnoreFields(&routerv3.Router{}, "upstream_log")))
	require.Empty(t, cmp.Diff(downstreamTLS(t, theirs), downstreamTLS(t, ours), protocmp.Transform()))
	require.Equal(t, theirs.GetPerConnectionBufferLimitBytes().GetValue(),
		ours.GetPerConnectionBufferLimitBytes().GetValue())

	require.Empty(t, cmp.Diff(theirCluster, ourCluster, protocmp.Transform(),
		protocmp.IgnoreFields(&clusterv3.Cluster{}, "name", "metadata", "load_assignment", "outlier_detection")))
}

// manager returns how a listener handles HTTP, less what makes it a gateway.
func manager(t *testing.T, l *listenerv3.Listener) *hcmv3.HttpConnectionManager {
	t.Helper()
	m := unpack(t, &hcmv3.HttpConnectionManager{}, l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig())
	filters := m.GetHttpFilters()
	m.HttpFilters = filters[len(filters)-1:] // the router
	m.StatPrefix, m.RouteSpecifier, m.AccessLog, m.LocalReplyConfig = "", nil, nil, nil
	return m
}

func downstreamTLS(t *testing.T, l *listenerv3.Listener) *tlsv3.DownstreamTlsContext {
	t.Helper()
	m := unpack(t, &tlsv3.DownstreamTlsContext{}, l.GetFilterChains()[0].GetTransportSocket().GetTypedConfig())
	m.CommonTlsContext.TlsCertificates, m.CommonTlsContext.TlsCertificateSdsSecretConfigs = nil, nil
	return m
}

func TestEnvoyAloneGoesToTheMock(t *testing.T) {
	b := alone(t)
	address := b.GetStaticResources().GetClusters()[0].GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].
		GetEndpoint().GetAddress().GetSocketAddress()
	require.Equal(t, "127.0.0.1", address.GetAddress())
	require.Equal(t, uint32(9000), address.GetPortValue())
	require.Equal(t, "/tmp/admin.sock", b.GetAdmin().GetAddress().GetPipe().GetPath())
	_, err := renderEnvoy("/tmp", "/tmp/admin.sock", "no port", "")
	require.Error(t, err)
}

// TestAIGatewayGoesToTheMock reads what aigw is given as aigw does: object by object.
func TestAIGatewayGoesToTheMock(t *testing.T) {
	text, err := renderAIGateway(`/tmp/a "b"`, "127.0.0.1:9000", "1.40.0", 8443)
	require.NoError(t, err)
	kinds := map[string]object{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o object
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &o))
		kinds[o["kind"].(string)] = o
	}
	require.Equal(t, map[string]any{"endpoints": []any{map[string]any{"ip": map[string]any{"address": "127.0.0.1",
		"port": float64(9000)}}}}, kinds["Backend"]["spec"])
	require.Equal(t, float64(workers), kinds["EnvoyProxy"]["spec"].(map[string]any)["concurrency"])
	_, err = renderAIGateway("/tmp", "no port", "1.40.0", 8443)
	require.Error(t, err)
}

func TestPeersThatAreNotThereAreNamed(t *testing.T) {
	found := findPeers(t.Context(), options{aiGateway: filepath.Join(t.TempDir(), "aigw")})
	require.Len(t, found, 3)
	require.Contains(t, found[0].absent, "no such file")
	require.Equal(t, peer{target: targetLiteLLM, absent: "no -litellm"}, found[1])
	require.Equal(t, peer{target: targetPortkey, absent: "no -portkey"}, found[2])

	self, err := os.Executable() // a binary, but not of the module
	require.NoError(t, err)
	require.Contains(t, findPeers(t.Context(), options{aiGateway: self})[0].absent, "was not built from")
	version, err := moduleVersion(self, "go.uber.org/zap")
	require.NoError(t, err)
	require.NotEmpty(t, version)
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-envoy", "e", "-modelgate", "m", "-quick", "-what", "w", "-out", "f", "-check", "c",
		"-aigateway", "a", "-litellm", "l"})
	require.NoError(t, err)
	require.Equal(t, options{envoy: "e", modelgate: "m", quick: true, what: "w", out: "f", check: "c",
		aiGateway: "a", litellm: "l"}, o)
	_, err = parseOptions([]string{"more"})
	require.Error(t, err)
}

func TestEnvoyVersionNamesNoPlaceOnTheMachine(t *testing.T) {
	require.Equal(t, "1.40.0/Clean/RELEASE/BoringSSL",
		envoyVersion("/a/b/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL"))
}

func TestEveryBarHasItsScenario(t *testing.T) {
	for _, quick := range []bool{true, false} {
		found := map[string]scenario{}
		for _, s := range scenarios(quick) {
			require.NotContains(t, found, s.name)
			require.Positive(t, s.passes)
			require.Positive(t, s.answer.Interval)
			found[s.name] = s
		}
		require.Equal(t, 64, found[manySmall].job.Connections)
		require.Equal(t, 2000, found[slowStreams].job.Connections)
		require.Equal(t, 10_000, found[crowd].job.Connections)
		for _, b := range bars() {
			require.Contains(t, found, b.scenario)
		}
		require.True(t, found[slowStreams].fresh && found[crowd].fresh)
	}
}
