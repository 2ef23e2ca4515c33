package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestPodsAreRestricted asks the library of the admission controller itself.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	eachRelease(t, func(t *testing.T, objects []object) {
		for _, w := range workloads(t, objects) {
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &w.meta, &w.spec))
			require.True(t, result.Allowed, "%s: %s", w.name, result.ForbiddenDetail())
		}
	})
}

// TestPodsAreStricterThanRestricted holds pods to what the profile leaves open.
func TestPodsAreStricterThanRestricted(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		for _, w := range workloads(t, objects) {
			require.NotNil(t, w.spec.AutomountServiceAccountToken, w.name)
			asks := w.component() == "controlplane" && len(all[*rbacv1.ClusterRole](objects)) > 0
			require.Equal(t, asks, *w.spec.AutomountServiceAccountToken,
				"%s: only the control plane talks to the Kubernetes API, if it takes objects", w.name)
			require.NotNil(t, w.spec.EnableServiceLinks, w.name)
			require.False(t, *w.spec.EnableServiceLinks, "%s: others' Services become environment variables", w.name)
			require.NotNil(t, w.spec.SecurityContext, w.name)
			require.EqualValues(t, 65532, *w.spec.SecurityContext.RunAsUser, w.name)
			for _, c := range w.containers() {
				requireStrict(t, w.name+"/"+c.Name, c)
			}
			for _, v := range w.spec.Volumes {
				require.Nil(t, v.HostPath, w.name)
				if v.EmptyDir != nil {
					require.NotNil(t, v.EmptyDir.SizeLimit, "%s: the emptyDir %s may fill the node", w.name, v.Name)
				}
			}
		}
		for _, r := range all[*rbacv1.Role](objects) {
			for _, rule := range r.Rules {
				require.NotEmpty(t, rule.ResourceNames, "%s: all objects of a kind", r.Name)
			}
		}
		if len(all[*rbacv1.ClusterRole](objects)) == 0 {
			require.Empty(t, all[*rbacv1.RoleBinding](objects))
			require.Empty(t, all[*rbacv1.ClusterRoleBinding](objects))
			require.Empty(t, all[*apiextensionsv1.CustomResourceDefinition](objects))
		}
		for _, a := range all[*corev1.ServiceAccount](objects) {
			require.NotNil(t, a.AutomountServiceAccountToken, a.Name)
			require.False(t, *a.AutomountServiceAccountToken, a.Name)
		}
	})
}

func requireStrict(t *testing.T, at string, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	require.NotNil(t, s, at)
	require.NotNil(t, s.ReadOnlyRootFilesystem, at)
	require.True(t, *s.ReadOnlyRootFilesystem, at)
	require.NotNil(t, s.AllowPrivilegeEscalation, at)
	require.False(t, *s.AllowPrivilegeEscalation, at)
	require.NotNil(t, s.Capabilities, at)
	require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop, at)
	require.Empty(t, s.Capabilities.Add, at)
	require.NotNil(t, s.SeccompProfile, at)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, s.SeccompProfile.Type, at)

	require.False(t, c.Resources.Requests.Cpu().IsZero(), "%s requests no cpu", at)
	require.False(t, c.Resources.Requests.Memory().IsZero(), "%s requests no memory", at)
	require.False(t, c.Resources.Limits.Memory().IsZero(), "%s has no limit of memory", at)
	require.LessOrEqual(t, c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value(), at)

	tagged, digest, _ := strings.Cut(c.Image, "@sha256:")
	last := tagged[strings.LastIndex(tagged, "/")+1:]
	_, tag, _ := strings.Cut(last, ":")
	require.True(t, digest != "" || tag != "", "%s: %s has neither tag nor digest", at, c.Image)
	require.NotContains(t, tag, "latest", at)
}

// TestWhatServesHasProbes: of what runs until it is ended; an init container and helm test's pod end by themselves.
func TestWhatServesHasProbes(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		for _, w := range workloads(t, objects) {
			if w.kind == "Pod" || w.kind == "Job" {
				continue
			}
			for i, c := range w.containers() {
				sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
				if i < len(w.spec.InitContainers) && !sidecar {
					continue
				}
				at := w.name + "/" + c.Name
				require.NotNil(t, c.ReadinessProbe, at)
				require.NotNil(t, c.LivenessProbe, at)
				for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
					requireNamedPort(t, at, c, p)
				}
				// The kubelet must not end what drains, or what is only slow.
				require.GreaterOrEqual(t, c.LivenessProbe.FailureThreshold*c.LivenessProbe.PeriodSeconds, int32(30), at)
			}
		}
	})
}

func requireNamedPort(t *testing.T, at string, c corev1.Container, p *corev1.Probe) {
	t.Helper()
	if p == nil {
		return
	}
	var name string
	switch {
	case p.HTTPGet != nil:
		name = p.HTTPGet.Port.StrVal
	case p.TCPSocket != nil:
		name = p.TCPSocket.Port.StrVal
	case p.Exec != nil:
		return
	}
	for _, port := range c.Ports {
		if port.Name == name {
			return
		}
	}
	require.Failf(t, "a probe of a port that the container does not name", "%s: %q", at, name)
}

// TestDrainsFitTheGracePeriod: the kubelet kills what is not done by then.
func TestDrainsFitTheGracePeriod(t *testing.T) {
	for drain, values := range map[int64]map[string]any{
		10 + 600:  form(t, "as it stands"),
		33 + 3600: form(t, "as it stands", "dataplane.drain.shutdownDelaySeconds=33", "dataplane.drain.graceSeconds=3600"),
	} {
		for _, w := range workloads(t, render(t, values)) {
			if w.component() == "dataplane" {
				require.Greater(t, *w.spec.TerminationGracePeriodSeconds, drain)
			}
		}
	}
}
