// Package istio_test has istiod's own code read what the chart makes for a mesh, and records the configuration that it
// sends to the sidecar of the data plane. test/e2e runs that in an Envoy. It is a module of its own, because istiod is
// large.
package istio_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/pkg/networking/core"
	kube "istio.io/istio/pilot/pkg/serviceregistry/kube"
	"istio.io/istio/pilot/pkg/xds/endpoints"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the recorded configuration again")

const (
	chart    = "../../charts/modelgate"
	recorded = "../e2e/testdata/istio/sidecar.yaml"
	host     = "modelgate-mesh.modelgate.svc.cluster.local"
)

// A release is what the chart makes of examples/istio.yaml.
type release struct {
	istio    string // objects that istiod reads
	services []*model.Service
	labels   map[string]string // of the data plane's pods
}

func rendered(t *testing.T) (r release) {
	c, err := loader.Load(chart)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(chart, "examples/istio.yaml"))
	require.NoError(t, err)
	values := map[string]any{}
	require.NoError(t, yaml.Unmarshal(text, &values))
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "modelgate", Namespace: "modelgate"},
		common.DefaultCapabilities)
	require.NoError(t, err)
	files, err := engine.Render(c, all)
	require.NoError(t, err)
	var istio []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for doc := range strings.SplitSeq(files[name], "\n---\n") {
			var head struct {
				APIVersion string `json:"apiVersion"`
				Kind       string
			}
			if filepath.Ext(name) != ".yaml" || yaml.Unmarshal([]byte(doc), &head) != nil {
				continue
			}
			switch {
			case strings.Contains(head.APIVersion, ".istio.io/"):
				istio = append(istio, doc)
			case head.Kind == "Service":
				var s corev1.Service
				require.NoError(t, yaml.Unmarshal([]byte(doc), &s))
				r.services = append(r.services, kube.ConvertService(s, nil, "cluster.local", "Kubernetes", "cluster.local"))
				if s.Name == "modelgate-mesh" {
					r.labels = s.Spec.Selector
				}
			}
		}
	}
	r.istio = strings.Join(istio, "\n---\n")
	require.NotEmpty(t, r.istio)
	require.NotEmpty(t, r.labels)
	return r
}

// pods are those of the data plane, by zone.
var pods = map[string]string{"eu/a": "10.0.0.7", "eu/b": "10.0.0.8", "us/a": "10.0.0.9"}

// istiod returns one that has read the objects of a release, which it has found valid.
func istiod(t *testing.T, r release) *core.ConfigGenTest {
	s := core.NewConfigGenTest(t, core.TestOptions{ConfigString: r.istio, Services: r.services})
	mesh := r.services[slices.IndexFunc(r.services, func(s *model.Service) bool { return s.Hostname == host })]
	for zone, address := range pods {
		s.MemRegistry.AddInstance(&model.ServiceInstance{Service: mesh, ServicePort: mesh.Ports[0],
			Endpoint: &model.IstioEndpoint{Addresses: []string{address}, EndpointPort: 8080, Labels: r.labels,
				Locality: model.Locality{Label: zone}, TLSMode: model.IstioMutualTLSModeLabel}})
	}
	return s
}

// TestTheSidecarSaysWhoseCertificateAClientHas: what istiod makes of the chart's objects is what test/e2e runs.
func TestTheSidecarSaysWhoseCertificateAClientHas(t *testing.T) {
	r := rendered(t)
	s := istiod(t, r)
	pod := s.SetupProxy(&model.Proxy{ConfigNamespace: "modelgate", Labels: r.labels, IPAddresses: []string{pods["eu/a"]},
		Metadata: &model.NodeMetadata{Namespace: "modelgate", Labels: r.labels, IstioVersion: "1.30.0"}})

	var chains []*listenerv3.FilterChain
	for _, l := range s.Listeners(pod) {
		for _, c := range l.GetFilterChains() {
			if c.GetFilterChainMatch().GetDestinationPort().GetValue() == 8080 {
				chains = append(chains, c)
			}
		}
	}
	require.NotEmpty(t, chains)
	for _, c := range chains {
		require.NotNil(t, c.GetTransportSocket(), "%s takes requests without mutual TLS", c.GetName())
	}
	cluster := clusterOf(t, s.Clusters(pod), "inbound|8080||")
	got := toYAML(t, map[string]any{
		"filter_chains": each(t, chains),
		"cluster":       toJSON(t, cluster),
	})
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(recorded), 0o755))
		require.NoError(t, os.WriteFile(recorded, got, 0o644))
	}
	want, err := os.ReadFile(recorded)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "istiod makes something else of the chart's objects: run with -update")
}

// TestClientsReachPodsOfTheirZone by mutual TLS of the mesh, without retries of the sidecar. The ports with TLS of their
// own get none of the mesh.
func TestClientsReachPodsOfTheirZone(t *testing.T) {
	s := istiod(t, rendered(t))
	client := s.SetupProxy(&model.Proxy{ConfigNamespace: "team-a", Locality: &corev3.Locality{Region: "eu", Zone: "a"},
		Metadata: &model.NodeMetadata{Namespace: "team-a", IstioVersion: "1.30.0"}})
	clusters := s.Clusters(client)
	mesh := clusterOf(t, clusters, "outbound|80||"+host)
	require.NotNil(t, mesh.GetTransportSocket(), "the mesh's TLS")
	builder := endpoints.NewEndpointBuilder(mesh.GetName(), client, s.PushContext())
	var order []string
	for _, l := range builder.BuildClusterLoadAssignment(s.Env().EndpointIndex).GetEndpoints() {
		require.Len(t, l.GetLbEndpoints(), 1)
		address := l.GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
		order = append(order, fmt.Sprint(l.GetPriority(), " ", address))
	}
	slices.Sort(order)
	require.Equal(t, []string{"0 " + pods["eu/a"], "1 " + pods["eu/b"], "2 " + pods["us/a"]}, order)
	outliers := mesh.GetOutlierDetection()
	require.True(t, outliers.GetSplitExternalLocalOriginErrors())
	require.Zero(t, outliers.GetEnforcingConsecutive_5Xx().GetValue(), "a provider's error takes no pod out")
	require.Zero(t, outliers.GetEnforcingConsecutiveGatewayFailure().GetValue())
	require.EqualValues(t, 100, outliers.GetEnforcingConsecutiveLocalOriginFailure().GetValue())
	for _, name := range []string{"outbound|443||modelgate-gateway.modelgate.svc.cluster.local",
		"outbound|8444||modelgate-internal.modelgate.svc.cluster.local"} {
		c := clusterOf(t, clusters, name)
		require.Nil(t, c.GetTransportSocket(), name)
		require.Empty(t, c.GetTransportSocketMatches(), name)
	}
	var found bool
	for _, config := range s.Routes(client) {
		for _, h := range config.GetVirtualHosts() {
			if slices.Contains(h.GetDomains(), host) {
				found = true
				requireRoutes(t, h)
			}
		}
	}
	require.True(t, found, "no route leads to %s", host)
}

// requireRoutes: none has retries, and what is no key is taken out.
func requireRoutes(t *testing.T, h *routev3.VirtualHost) {
	const none = "mesh"
	removed := map[string]string{}
	for _, r := range h.GetRoutes() {
		require.Zero(t, r.GetRoute().GetRetryPolicy().GetNumRetries().GetValue())
		require.Zero(t, r.GetRoute().GetTimeout().AsDuration())
		for _, m := range r.GetMatch().GetHeaders() {
			require.Contains(t, r.GetRequestHeadersToRemove(), m.GetName())
			removed[m.GetName()] = m.GetStringMatch().GetExact()
		}
	}
	require.Equal(t, map[string]string{"authorization": "Bearer " + none, "x-api-key": none, "x-goog-api-key": none}, removed)
	last := h.GetRoutes()[len(h.GetRoutes())-1]
	require.Empty(t, last.GetMatch().GetHeaders())
	require.Empty(t, last.GetRequestHeadersToRemove(), "a key reaches the gateway")
}

// TestSidecarsLeadNamesOfVendorsToTheGateway by the name in the TLS of the application, which stays its own.
func TestSidecarsLeadNamesOfVendorsToTheGateway(t *testing.T) {
	s := istiod(t, rendered(t))
	client := s.SetupProxy(&model.Proxy{ConfigNamespace: "team-a",
		Metadata: &model.NodeMetadata{Namespace: "team-a", IstioVersion: "1.30.0"}})
	var led []string
	for _, l := range s.Listeners(client) {
		for _, c := range l.GetFilterChains() {
			if !slices.Contains(c.GetFilterChainMatch().GetServerNames(), "api.openai.com") {
				continue
			}
			require.Nil(t, c.GetTransportSocket())
			for _, f := range c.GetFilters() {
				var proxy tcpproxyv3.TcpProxy
				if f.GetTypedConfig().MessageIs(&proxy) {
					require.NoError(t, f.GetTypedConfig().UnmarshalTo(&proxy))
					led = append(led, l.GetName()+" "+proxy.GetCluster())
				}
			}
		}
	}
	require.Equal(t, []string{"0.0.0.0_443 outbound|443||modelgate-gateway.modelgate.svc.cluster.local"}, led)
}

func clusterOf(t *testing.T, all []*clusterv3.Cluster, name string) *clusterv3.Cluster {
	i := slices.IndexFunc(all, func(c *clusterv3.Cluster) bool { return c.GetName() == name })
	require.GreaterOrEqual(t, i, 0, "no cluster %s", name)
	return all[i]
}

func each[M proto.Message](t *testing.T, all []M) (list []any) {
	for _, m := range all {
		list = append(list, toJSON(t, m))
	}
	return list
}

// toJSON returns a message without the filters that only Istio's build of Envoy has: they count, and exchange what
// telemetry says of peers.
func toJSON(t *testing.T, m proto.Message) any {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	return withoutIstio(v)
}

func withoutIstio(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			if list, ok := of.([]any); ok && (key == "filters" || key == "http_filters") {
				of = slices.DeleteFunc(list, isIstios)
			}
			v[key] = withoutIstio(of)
		}
	case []any:
		for i := range v {
			v[i] = withoutIstio(v[i])
		}
	}
	return v
}

func isIstios(filter any) bool {
	f, _ := filter.(map[string]any)
	config, _ := f["typed_config"].(map[string]any)
	name, _ := config["@type"].(string)
	return !strings.HasPrefix(name, "type.googleapis.com/envoy.extensions.")
}

func toYAML(t *testing.T, v any) []byte {
	text, err := yaml.Marshal(v)
	require.NoError(t, err)
	return append([]byte("# What istiod sends to the sidecar of the data plane (test/istio). Do not edit.\n"), text...)
}
