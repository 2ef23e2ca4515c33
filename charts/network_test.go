package charts_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// An end of an arrow: a pod, or an address outside of the cluster.
type end struct {
	namespace string // "" outside
	labels    labels.Set
	ip        string
	pod       workload
}

func (e end) namespaceLabels() labels.Set {
	return labels.Set{"kubernetes.io/metadata.name": e.namespace}
}

// ends are those of a release, by component, and what is around it.
func ends(t *testing.T, objects []object) map[string]end {
	t.Helper()
	known := map[string]end{
		"the world":          {ip: "203.0.113.9"},
		"the world, by IPv6": {ip: "2001:db8::9"},
		"a private network":  {ip: "10.1.2.3"},
		"cloud metadata":     {ip: "169.254.169.254"},
		"DNS":                {namespace: "kube-system", labels: labels.Set{"k8s-app": "kube-dns"}, ip: "10.96.0.10"},
		"Prometheus":         {namespace: "monitoring", labels: labels.Set{"app": "prometheus"}, ip: "10.244.0.7"},
		"a pod of people":    {namespace: "people", labels: labels.Set{"app": "browser"}, ip: "10.244.0.8"},
		"a mesh's Envoy":     {namespace: "mesh", labels: labels.Set{"app": "ingress"}, ip: "10.244.0.9"},
		"a neighbour":        {namespace: namespace, labels: labels.Set{"app": "neighbour"}, ip: "10.244.0.10"},
		"a pod elsewhere":    {namespace: "elsewhere", labels: labels.Set{"app": "other"}, ip: "10.244.0.11"},
		"another release's": {namespace: namespace, labels: labels.Set{"app.kubernetes.io/name": "modelgate",
			"app.kubernetes.io/instance": "other", "app.kubernetes.io/component": "dataplane"}, ip: "10.244.0.12"},
		"Redis outside": {namespace: "stores", labels: labels.Set{"app.kubernetes.io/name": "redis"}, ip: "10.244.1.1"},
		"PostgreSQL outside": {namespace: "stores", labels: labels.Set{"app.kubernetes.io/name": "postgresql"},
			ip: "10.244.1.2"},
		"etcd outside":       {namespace: "stores", labels: labels.Set{"app.kubernetes.io/name": "etcd"}, ip: "10.244.1.3"},
		"the OTLP collector": {namespace: "observability", labels: labels.Set{"app": "collector"}, ip: "10.244.1.4"},
		"istiod":             {namespace: "istio-system", labels: labels.Set{"app": "istiod"}, ip: "10.244.1.6"},
		"an admin's ingress": {namespace: "ingress", labels: labels.Set{"app": "nginx"}, ip: "10.244.1.5"},
	}
	known["a component without a policy"] = end{namespace: namespace, labels: labels.Set{
		"app.kubernetes.io/name": "modelgate", "app.kubernetes.io/instance": releaseName,
		"app.kubernetes.io/component": "new",
	}, ip: "10.244.2.200"}
	for i, w := range workloads(t, objects) {
		known[w.component()] = end{namespace: namespace, labels: w.meta.Labels, ip: fmt.Sprintf("10.244.2.%d", i+1), pod: w}
	}
	return known
}

// An arrow is one connection of the drawing.
type arrow struct {
	from, to string
	port     int32
	protocol corev1.Protocol
}

func tcp(from, to string, port int32) arrow { return arrow{from, to, port, corev1.ProtocolTCP} }

func TestNetworkPoliciesAllowTheArrowsOfTheDrawing(t *testing.T) {
	metrics := []arrow{
		tcp("Prometheus", "dataplane", 9002), tcp("Prometheus", "dataplane", 9004), tcp("Prometheus", "controlplane", 8081),
		tcp("Prometheus", "jobsvc", 9003), tcp("Prometheus", "etcd", 2381),
	}
	inside := []arrow{
		tcp("the world", "dataplane", 8443), tcp("a neighbour", "dataplane", 8443),
		tcp("a pod elsewhere", "dataplane", 8443),
		tcp("dataplane", "controlplane", 18000), tcp("dataplane", "jobsvc", 9090), tcp("dataplane", "redis", 6379),
		tcp("dataplane", "echo", 9100),
		tcp("dataplane", "the world", 443), tcp("dataplane", "the world, by IPv6", 443),
		{"dataplane", "DNS", 53, corev1.ProtocolUDP},
		tcp("jobsvc", "dataplane", 8444), tcp("jobsvc", "controlplane", 18000), tcp("jobsvc", "etcd", 2379),
		tcp("jobsvc", "the world", 443),
		tcp("controlplane", "etcd", 2379), tcp("controlplane", "postgresql", 5432), tcp("controlplane", "dataplane", 8443),
		tcp("controlplane", "DNS", 53),
		tcp("etcd", "etcd", 2380), {"etcd", "DNS", 53, corev1.ProtocolUDP},
		tcp("test", "dataplane", 8443), tcp("test", "controlplane", 8081),
		tcp("a pod of people", "controlplane", 8081),
	}
	requireArrows(t, form(t, "everything bundled and kept"), slices.Concat(metrics, inside), true)
	requireArrows(t, form(t, "as it stands"), metrics, false)
	requireArrows(t, form(t, "as it stands"), []arrow{tcp("a pod of people", "controlplane", 8081),
		tcp("a neighbour", "controlplane", 8081)}, false)
}

func TestNetworkPoliciesForbidWhatIsNotInTheDrawing(t *testing.T) {
	var forbidden []arrow
	for _, stranger := range []string{"the world", "a neighbour", "a pod elsewhere", "another release's", "echo"} {
		forbidden = append(forbidden,
			tcp(stranger, "dataplane", 8444), tcp(stranger, "dataplane", 9002), tcp(stranger, "dataplane", 9004),
			tcp(stranger, "controlplane", 18000), tcp(stranger, "controlplane", 8081), tcp(stranger, "jobsvc", 9090),
			tcp(stranger, "jobsvc", 9003),
			tcp(stranger, "etcd", 2379), tcp(stranger, "etcd", 2380), tcp(stranger, "redis", 6379),
			tcp(stranger, "postgresql", 5432), tcp(stranger, "echo", 9100))
	}
	for _, idle := range []string{"echo", "redis", "postgresql", "etcd", "test"} {
		forbidden = append(forbidden, tcp(idle, "the world", 443), tcp(idle, "a neighbour", 80),
			tcp(idle, "a private network", 443))
	}
	for _, out := range []string{"dataplane", "jobsvc", "controlplane"} {
		forbidden = append(forbidden,
			tcp(out, "cloud metadata", 80), tcp(out, "cloud metadata", 443), tcp(out, "a private network", 443),
			tcp(out, "a neighbour", 443),
			tcp(out, "the world", 22), tcp(out, "the world", 80), tcp(out, "a pod elsewhere", 443))
	}
	forbidden = append(forbidden,
		// The data plane holds no credentials of stores, and does not administer.
		tcp("dataplane", "etcd", 2379), tcp("dataplane", "postgresql", 5432), tcp("dataplane", "controlplane", 8081),
		tcp("dataplane", "jobsvc", 9003),
		tcp("jobsvc", "postgresql", 5432), tcp("jobsvc", "redis", 6379), tcp("jobsvc", "controlplane", 8081),
		tcp("jobsvc", "echo", 9100),
		tcp("controlplane", "dataplane", 8444), tcp("controlplane", "redis", 6379), tcp("controlplane", "jobsvc", 9090),
		tcp("controlplane", "etcd", 2380),
		tcp("test", "etcd", 2379), tcp("test", "dataplane", 8444), tcp("test", "controlplane", 18000),
		tcp("Prometheus", "controlplane", 18000), tcp("Prometheus", "dataplane", 8444), tcp("Prometheus", "etcd", 2379),
		tcp("a pod of people", "controlplane", 18000), tcp("a pod of people", "jobsvc", 9090),
		tcp("a mesh's Envoy", "controlplane", 18000),
		tcp("the world", "a component without a policy", 80), tcp("a component without a policy", "the world", 443),
	)
	requireArrows(t, form(t, "everything bundled and kept"), forbidden, false)
}

func TestNetworkPoliciesBehindAMesh(t *testing.T) {
	values := form(t, "ext_proc alone, scaled", "dataplane.enabled=false", "jobsvc.enabled=false",
		"networkPolicy.redis.peers[0].podSelector.matchLabels.app=neighbour")
	requireArrows(t, values, []arrow{
		tcp("a mesh's Envoy", "extproc", 9001), tcp("a mesh's Envoy", "controlplane", 18000),
		tcp("extproc", "controlplane", 18000), tcp("extproc", "a neighbour", 6379),
	}, true)
	requireArrows(t, values, []arrow{
		tcp("the world", "extproc", 9001), tcp("a neighbour", "extproc", 9001), tcp("a mesh's Envoy", "extproc", 9002),
		tcp("a mesh's Envoy", "controlplane", 8081),
		tcp("a mesh's Envoy", "etcd", 2379), tcp("extproc", "etcd", 2379),
	}, false)
}

func TestNetworkPoliciesOfClientsThatAreNamed(t *testing.T) {
	values := form(t, "as it stands",
		"networkPolicy.clients[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=elsewhere")
	requireArrows(t, values, []arrow{tcp("a pod elsewhere", "dataplane", 8443), tcp("test", "dataplane", 8443),
		tcp("controlplane", "dataplane", 8443)}, true)
	requireArrows(t, values, []arrow{tcp("the world", "dataplane", 8443), tcp("a neighbour", "dataplane", 8443)}, false)
}

func TestNetworkPoliciesOfTheProductionExample(t *testing.T) {
	values := releases(t)["examples/production.yaml"]
	require.NotNil(t, values)
	requireArrows(t, values, []arrow{
		tcp("dataplane", "Redis outside", 6379), tcp("controlplane", "PostgreSQL outside", 5432),
		tcp("controlplane", "etcd outside", 2379),
		tcp("jobsvc", "etcd outside", 2379), tcp("jobsvc", "the world", 443), tcp("an admin's ingress", "controlplane",
			8081), tcp("Prometheus", "dataplane", 9004),
		tcp("dataplane", "the OTLP collector", 4317), tcp("controlplane", "the OTLP collector", 4317),
		tcp("jobsvc", "the OTLP collector", 4317),
	}, true)
	requireArrows(t, values, []arrow{
		tcp("dataplane", "PostgreSQL outside", 5432), tcp("dataplane", "etcd outside", 2379),
		tcp("jobsvc", "PostgreSQL outside", 5432), tcp("controlplane", "Redis outside", 6379),
	}, false)
}

func requireArrows(t *testing.T, values map[string]any, arrows []arrow, want bool) {
	t.Helper()
	objects := render(t, values)
	policies, known := all[*networkingv1.NetworkPolicy](objects), ends(t, objects)
	for _, a := range arrows {
		from, ok := known[a.from]
		require.True(t, ok, "nothing is called %s", a.from)
		to, ok := known[a.to]
		require.True(t, ok, "nothing is called %s", a.to)
		if to.pod.name != "" && want {
			require.True(t, to.pod.hasPort(a.port), "%s does not listen on %d", a.to, a.port)
		}
		out, in := leaves(t, policies, from, to, a), enters(t, policies, from, to, a)
		got := out && in
		if !want && from.pod.name != "" && to.pod.name != "" {
			got = out || in // both ends refuse, so that one that is wrong opens nothing
		}
		if got != want {
			t.Errorf("%s -> %s:%d: leaving is %v, entering is %v", a.from, a.to, a.port, out, in)
		}
	}
}

// leaves reports whether the policies of from let it connect. Where none of that direction selects a pod, all is
// allowed.
func leaves(t *testing.T, policies []*networkingv1.NetworkPolicy, from, to end, a arrow) bool {
	t.Helper()
	free := true
	for _, p := range policies {
		if !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) || !selects(t, p, from) {
			continue
		}
		free = false
		for _, rule := range p.Spec.Egress {
			if onPort(rule.Ports, to, a) && isPeer(t, rule.To, p.Namespace, to) {
				return true
			}
		}
	}
	return free
}

// enters is the same of the other end.
func enters(t *testing.T, policies []*networkingv1.NetworkPolicy, from, to end, a arrow) bool {
	t.Helper()
	free := true
	for _, p := range policies {
		if !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) || !selects(t, p, to) {
			continue
		}
		free = false
		for _, rule := range p.Spec.Ingress {
			if onPort(rule.Ports, to, a) && isPeer(t, rule.From, p.Namespace, from) {
				return true
			}
		}
	}
	return free
}

func selects(t *testing.T, p *networkingv1.NetworkPolicy, e end) bool {
	t.Helper()
	return e.namespace == p.Namespace && matches(t, &p.Spec.PodSelector, e.labels)
}

func matches(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(set)
}

func onPort(ports []networkingv1.NetworkPolicyPort, to end, a arrow) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Protocol != nil && *p.Protocol != a.protocol || p.Protocol == nil && a.protocol != corev1.ProtocolTCP {
			return false
		}
		switch {
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			number, ok := to.pod.port(p.Port.StrVal)
			return ok && number == a.port
		case p.EndPort != nil:
			return p.Port.IntVal <= a.port && a.port <= *p.EndPort
		}
		return p.Port.IntVal == a.port
	})
}

// isPeer reports whether one of the peers is e. No peers at all are everybody.
func isPeer(t *testing.T, peers []networkingv1.NetworkPolicyPeer, own string, e end) bool {
	t.Helper()
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return inBlock(t, p.IPBlock, e.ip)
		}
		if e.namespace == "" {
			return false
		}
		if p.NamespaceSelector == nil && e.namespace != own || p.NamespaceSelector != nil &&
			!matches(t, p.NamespaceSelector, e.namespaceLabels()) {
			return false
		}
		return p.PodSelector == nil || matches(t, p.PodSelector, e.labels)
	})
}

func inBlock(t *testing.T, block *networkingv1.IPBlock, ip string) bool {
	t.Helper()
	in := func(cidr string) bool {
		prefix, err := netip.ParsePrefix(cidr)
		require.NoError(t, err)
		return prefix.Contains(netip.MustParseAddr(ip))
	}
	return in(block.CIDR) && !slices.ContainsFunc(block.Except, in)
}
