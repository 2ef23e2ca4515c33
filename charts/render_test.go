package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLintHasNothingToSay(t *testing.T) {
	for name, values := range releases(t) {
		for _, m := range lint.RunAll(chartDir, values, namespace).Messages {
			if m.Severity > support.InfoSev { // an icon is recommended
				t.Errorf("%s: %s", name, m.Error())
			}
		}
	}
}

func TestObjectsAreOfTheRelease(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		seen := map[string]bool{}
		for _, o := range objects {
			m, err := meta.Accessor(o.typed)
			require.NoError(t, err)
			kind := o.typed.GetObjectKind().GroupVersionKind().Kind
			at := o.template + " " + kind + "/" + m.GetName()
			switch o.typed.(type) {
			case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *apiextensionsv1.CustomResourceDefinition:
				require.Empty(t, m.GetNamespace(), at)
			case *rbacv1.RoleBinding: // also in namespaces of tenants
			default:
				require.Equal(t, namespace, m.GetNamespace(), at)
			}
			own := kind + m.GetNamespace() + "/" + m.GetName()
			require.False(t, seen[own], "%s is there twice", at)
			seen[own] = true
			require.Equal(t, releaseName, m.GetLabels()["app.kubernetes.io/instance"], at)
			require.Equal(t, "Helm", m.GetLabels()["app.kubernetes.io/managed-by"], at)
			require.NotEmpty(t, m.GetLabels()["app.kubernetes.io/component"], at)
			requireValidNames(t, at, m)
		}
	})
}

// requireValidNames checks what the API server would refuse.
func requireValidNames(t *testing.T, at string, m metav1.Object) {
	t.Helper()
	require.Empty(t, validation.IsDNS1123Subdomain(m.GetName()), at)
	if _, ok := m.(*corev1.Service); ok {
		require.Empty(t, validation.IsDNS1035Label(m.GetName()), at)
	}
	for key, value := range m.GetLabels() {
		require.Empty(t, validation.IsQualifiedName(key), "%s: %s", at, key)
		require.Empty(t, validation.IsValidLabelValue(value), "%s: %s", at, key)
	}
}

func TestSelectorsFindTheirPods(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		pods := workloads(t, objects)
		for _, w := range pods {
			if w.selector != nil {
				require.Equal(t, []string{w.name}, selected(t, pods, w.selector), "%s selects others' pods, or not its own",
					w.name)
			}
		}
		for _, s := range all[*corev1.Service](objects) {
			names := selected(t, pods, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
			require.Len(t, names, 1, s.Name)
			w := pods[slices.IndexFunc(pods, func(w workload) bool { return w.name == names[0] })]
			for _, p := range s.Spec.Ports {
				target := p.TargetPort.StrVal
				if strings.HasPrefix(p.Name, "listener-") { // the control plane reads its number
					target = p.Name
					number, _ := w.port(target)
					require.Equal(t, intstr.FromInt32(number), p.TargetPort, "%s: port %s", s.Name, p.Name)
				} else {
					require.Equal(t, intstr.String, p.TargetPort.Type, "%s: port %s", s.Name, p.Name)
				}
				_, ok := w.port(target)
				require.True(t, ok, "%s: no container of %s names the port %s", s.Name, w.name, p.TargetPort.StrVal)
			}
		}
		for _, b := range all[*policyv1.PodDisruptionBudget](objects) {
			require.Len(t, selected(t, pods, b.Spec.Selector), 1, b.Name)
		}
		for _, h := range all[*autoscalingv2.HorizontalPodAutoscaler](objects) {
			require.True(t, slices.ContainsFunc(pods, func(w workload) bool {
				return w.kind == h.Spec.ScaleTargetRef.Kind && w.name == h.Spec.ScaleTargetRef.Name
			}), "%s scales what is not there", h.Name)
		}
	})
}

// selected returns the names of the workloads whose pods a selector finds.
func selected(t *testing.T, pods []workload, selector *metav1.LabelSelector) []string {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	require.False(t, s.Empty(), "a selector of all pods")
	var names []string
	for _, w := range pods {
		if s.Matches(labels.Set(w.meta.Labels)) {
			names = append(names, w.name)
		}
	}
	return names
}

// TestWhatPodsReferToIsThere: a Secret, ConfigMap, ServiceAccount or claim is rendered, issued, or named in the
// values.
func TestWhatPodsReferToIsThere(t *testing.T) {
	all := releases(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := render(t, all[name])
			there := available(t, objects)
			given := map[string]bool{}
			texts(all[name], given)
			for _, w := range workloads(t, objects) {
				for _, reference := range references(w) {
					_, name, _ := strings.Cut(reference, "/")
					require.True(t, there[reference] || given[name],
						"%s refers to %s, which neither the chart makes nor the values name", w.name, reference)
				}
			}
		})
	}
}

// available returns kind/name of what a release brings.
func available(t *testing.T, objects []object) map[string]bool {
	t.Helper()
	there := map[string]bool{"ServiceAccount/default": true}
	for _, o := range objects {
		m, err := meta.Accessor(o.typed)
		require.NoError(t, err)
		there[o.typed.GetObjectKind().GroupVersionKind().Kind+"/"+m.GetName()] = true
		if c, ok := o.typed.(*certmanagerv1.Certificate); ok {
			there["Secret/"+c.Spec.SecretName] = true
		}
	}
	return there
}

// texts collects the strings of values.
func texts(value any, into map[string]bool) {
	switch value := value.(type) {
	case string:
		into[value] = true
	case []any:
		for _, v := range value {
			texts(v, into)
		}
	case map[string]any:
		for _, v := range value {
			texts(v, into)
		}
	}
}

// references returns kind/name of what a pod cannot start without.
func references(w workload) []string {
	found := []string{"ServiceAccount/" + w.spec.ServiceAccountName}
	for _, s := range w.spec.ImagePullSecrets {
		found = append(found, "Secret/"+s.Name)
	}
	for _, v := range w.spec.Volumes {
		switch {
		case v.Secret != nil:
			found = append(found, "Secret/"+v.Secret.SecretName)
		case v.ConfigMap != nil:
			found = append(found, "ConfigMap/"+v.ConfigMap.Name)
		case v.PersistentVolumeClaim != nil:
			found = append(found, "PersistentVolumeClaim/"+v.PersistentVolumeClaim.ClaimName)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil && (s.Secret.Optional == nil || !*s.Secret.Optional) {
					found = append(found, "Secret/"+s.Secret.Name)
				}
			}
		}
	}
	for _, c := range w.containers() {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				found = append(found, "Secret/"+e.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				found = append(found, "Secret/"+e.SecretRef.Name)
			}
		}
	}
	return found
}

func TestVolumesAreThereAndUsed(t *testing.T) {
	eachRelease(t, func(t *testing.T, objects []object) {
		for _, w := range workloads(t, objects) {
			unused := map[string]bool{}
			for _, v := range w.spec.Volumes {
				unused[v.Name] = true
			}
			for _, c := range w.claims {
				unused[c.Name] = true
			}
			declared := maps.Clone(unused)
			for _, c := range w.containers() {
				for _, m := range c.VolumeMounts {
					require.True(t, declared[m.Name], "%s/%s mounts %s, which is no volume", w.name, c.Name, m.Name)
					delete(unused, m.Name)
				}
			}
			require.Empty(t, unused, "%s has volumes that nothing mounts", w.name)
		}
	})
}
