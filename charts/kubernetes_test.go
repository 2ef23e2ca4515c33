package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestRightsAreTheLeast that the control plane can work with: no "*", no Secret of all namespaces, no object of its own
// kinds written, and nothing deleted.
func TestRightsAreTheLeast(t *testing.T) {
	for _, name := range []string{"objects of Kubernetes", "objects of some namespaces", "the Gateway API"} {
		objects := render(t, form(t, name))
		everywhere := map[string]bool{}
		for _, b := range all[*rbacv1.ClusterRoleBinding](objects) {
			everywhere[b.RoleRef.Name] = true
		}
		for _, r := range all[*rbacv1.ClusterRole](objects) {
			for _, rule := range r.Rules {
				require.NotContains(t, slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*", r.Name)
				require.NotContains(t, rule.Verbs, "delete", r.Name)
				if slices.Contains(rule.Resources, "secrets") {
					require.False(t, everywhere[r.Name], "%s: Secrets of every namespace", name)
				}
				for _, resource := range rule.Resources {
					if rule.APIGroups[0] != "" && !strings.HasSuffix(resource, "/status") {
						require.Equal(t, []string{"get", "list", "watch"}, rule.Verbs)
					}
				}
			}
		}
	}
}

// TestSomeNamespacesAreWatchedWithoutRightsInOthers.
func TestSomeNamespacesAreWatchedWithoutRightsInOthers(t *testing.T) {
	objects := render(t, form(t, "objects of some namespaces"))
	require.Empty(t, all[*apiextensionsv1.CustomResourceDefinition](objects))
	for _, b := range all[*rbacv1.ClusterRoleBinding](objects) {
		require.True(t, strings.HasSuffix(b.RoleRef.Name, "-namespaces"), b.Name)
	}
	var in []string
	for _, b := range all[*rbacv1.RoleBinding](objects) {
		if strings.HasSuffix(b.RoleRef.Name, "-objects") {
			in = append(in, b.Namespace)
		}
	}
	require.ElementsMatch(t, []string{"team-a", "team-b", namespace}, in)
	args := controlplaneArgs(t, objects)
	require.Contains(t, args, "--kubernetes")
	require.Contains(t, args, "--kubernetes-watch=team-b")
}

// TestPortsOfGatewaysLeadToTheDataPlane: a Gateway has those of the Service, and nothing is in the way.
func TestPortsOfGatewaysLeadToTheDataPlane(t *testing.T) {
	objects := render(t, form(t, "the Gateway API"))
	args := controlplaneArgs(t, objects)
	require.Contains(t, args, "--kubernetes-gateway-controller=modelgate.dev/gateway-controller")
	i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--kubernetes-gateway-service=") })
	require.Positive(t, i)
	_, name, _ := strings.Cut(args[i], "=")
	led := false
	for _, s := range all[*corev1.Service](objects) {
		for _, p := range s.Spec.Ports {
			led = led || s.Name == name && p.Port == 8444 && p.TargetPort.IntValue() == 9443
		}
	}
	require.True(t, led)
	admitted := false
	for _, p := range all[*networkingv1.NetworkPolicy](objects) {
		for _, in := range p.Spec.Ingress {
			for _, port := range in.Ports {
				admitted = admitted || port.Port.IntValue() == 9443
			}
		}
	}
	require.True(t, admitted)
}

// TestDefinitionsAreUpgradedAndKept: they are of the release, and do not go with it.
func TestDefinitionsAreUpgradedAndKept(t *testing.T) {
	definitions := all[*apiextensionsv1.CustomResourceDefinition](render(t, form(t, "objects of Kubernetes")))
	require.NotEmpty(t, definitions)
	for _, d := range definitions {
		require.Equal(t, "keep", d.Annotations["helm.sh/resource-policy"], d.Name)
		require.Equal(t, "modelgate.dev", d.Spec.Group)
	}
	require.NotContains(t, controlplaneArgs(t, render(t, form(t, "as it stands"))), "--kubernetes")
}

func controlplaneArgs(t *testing.T, objects []object) []string {
	t.Helper()
	for _, w := range workloads(t, objects) {
		i := slices.IndexFunc(w.containers(), func(c corev1.Container) bool { return c.Name == "controlplane" })
		if i >= 0 {
			return w.containers()[i].Args
		}
	}
	require.Fail(t, "there is no control plane")
	return nil
}
