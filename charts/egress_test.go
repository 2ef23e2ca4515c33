package charts_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestApplicationsReachTheGatewayAlone has the policies of the example and the one that docs/egress.md has for a
// namespace of applications.
func TestApplicationsReachTheGatewayAlone(t *testing.T) {
	objects := renderAs(t, "modelgate", "modelgate", releases(t)["examples/egress.yaml"])
	known := ends(t, objects)
	for name, e := range known {
		if e.pod.name != "" {
			e.namespace = "modelgate"
			known[name] = e
		}
	}
	application := end{namespace: "team-b", labels: labels.Set{"app": "summarizer"}, ip: "10.244.3.1"}
	known["an application"] = application
	policies := append(all[*networkingv1.NetworkPolicy](objects), policyOfApplications(t))
	for a, want := range map[arrow]bool{
		tcp("an application", "dataplane", 8443):                                    true,
		{from: "an application", to: "DNS", port: 53, protocol: corev1.ProtocolUDP}: true,
		tcp("an application", "the world", 443):                                     false,
		tcp("an application", "the world, by IPv6", 443):                            false,
		tcp("an application", "a private network", 443):                             false,
		tcp("an application", "cloud metadata", 80):                                 false,
		tcp("an application", "controlplane", 8081):                                 false,
		tcp("an application", "controlplane", 18000):                                false,
		tcp("an application", "jobsvc", 9090):                                       false,
		tcp("an application", "dataplane", 8444):                                    false,
		tcp("the world", "dataplane", 8443):                                         false,
		tcp("a pod elsewhere", "dataplane", 8443):                                   true,
		tcp("dataplane", "the world", 443):                                          true,
		tcp("controlplane", "the world", 443):                                       true,
		tcp("jobsvc", "the world", 443):                                             false,
		tcp("etcd", "the world", 443):                                               false,
		tcp("echo", "the world", 443):                                               false,
	} {
		from, to := known[a.from], known[a.to]
		require.NotEmpty(t, from, a.from)
		require.NotEmpty(t, to, a.to)
		got := leaves(t, policies, from, to, a)
		if want || a.from != "an application" { // its own policy forbids the others
			got = got && enters(t, policies, from, to, a)
		}
		require.Equal(t, want, got, "%s -> %s:%d", a.from, a.to, a.port)
	}
}

var fenced = regexp.MustCompile("(?s)```yaml\n(apiVersion: networking.*?)```")

// policyOfApplications returns the policy of docs/egress.md.
func policyOfApplications(t *testing.T) *networkingv1.NetworkPolicy {
	t.Helper()
	text, err := os.ReadFile("../docs/egress.md")
	require.NoError(t, err)
	found := fenced.FindSubmatch(text)
	require.NotNil(t, found, "docs/egress.md has no policy")
	policy := &networkingv1.NetworkPolicy{}
	require.NoError(t, sigsyaml.UnmarshalStrict(found[1], policy))
	require.Equal(t, "team-b", policy.Namespace)
	return policy
}
