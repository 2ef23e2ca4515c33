package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// kindsOfIstio are those that the chart makes. Whether istiod takes them is in test/istio.
var kindsOfIstio = []apischema.GroupVersionKind{
	{Group: "networking.istio.io", Version: "v1", Kind: "DestinationRule"},
	{Group: "networking.istio.io", Version: "v1", Kind: "ServiceEntry"},
	{Group: "networking.istio.io", Version: "v1", Kind: "Sidecar"},
	{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"},
	{Group: "networking.istio.io", Version: "v1alpha3", Kind: "EnvoyFilter"},
	{Group: "security.istio.io", Version: "v1", Kind: "AuthorizationPolicy"},
	{Group: "security.istio.io", Version: "v1", Kind: "PeerAuthentication"},
}

func addIstio(s *runtime.Scheme) error {
	for _, kind := range kindsOfIstio {
		s.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	}
	return nil
}

// TestTheSidecarReachesTheGatewayByIPv6, where the other processes listen by that.
func TestTheSidecarReachesTheGatewayByIPv6(t *testing.T) {
	objects := render(t, form(t, "a mesh, and everybody in it", "gateway.address=::"))
	require.Contains(t, baseline(t, objects), "address: ::1\n")
	for _, o := range all[*unstructured.Unstructured](objects) {
		if o.GetKind() == "Sidecar" {
			ingress, _, err := unstructured.NestedSlice(o.Object, "spec", "ingress")
			require.NoError(t, err)
			require.Equal(t, "[::1]:8080", ingress[0].(map[string]any)["defaultEndpoint"])
		}
	}
}

// TestOnlyTheDataPlaneIsInTheMesh: its pods get a sidecar, through which one port leads and nothing goes out.
func TestOnlyTheDataPlaneIsInTheMesh(t *testing.T) {
	values := releases(t)["examples/istio.yaml"]
	for _, w := range workloads(t, render(t, values)) {
		if w.component() != "dataplane" {
			require.NotContains(t, w.meta.Labels, "sidecar.istio.io/inject", w.name)
			continue
		}
		require.Equal(t, "true", w.meta.Labels["sidecar.istio.io/inject"])
		ports, ok := w.port("mesh")
		require.True(t, ok)
		require.EqualValues(t, 8080, ports)
		require.Equal(t, "8080", w.meta.Annotations["traffic.sidecar.istio.io/includeInboundPorts"])
		outbound, ok := w.meta.Annotations["traffic.sidecar.istio.io/includeOutboundIPRanges"]
		require.True(t, ok && outbound == "", "nothing that goes out passes the sidecar")
	}
	for _, s := range all[*corev1.Service](render(t, values)) {
		if s.Name == releaseName+"-modelgate-mesh" {
			require.Equal(t, "http", s.Spec.Ports[0].Name, "by its name Istio knows the protocol")
		}
	}
	requireArrows(t, values, []arrow{
		tcp("a pod elsewhere", "dataplane", 8080), tcp("a pod elsewhere", "dataplane", 8443),
		tcp("dataplane", "istiod", 15012), tcp("controlplane", "dataplane", 8443),
	}, true)
	requireArrows(t, values, []arrow{
		tcp("the world", "dataplane", 8080), tcp("controlplane", "istiod", 15012), tcp("dataplane", "istiod", 443),
		tcp("a pod elsewhere", "dataplane", 8444),
	}, false)
	requireArrows(t, form(t, "as it stands"), []arrow{tcp("a pod elsewhere", "dataplane", 8080),
		tcp("dataplane", "istiod", 15012)}, false)
}
