package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A workload is what makes pods, or is one.
type workload struct {
	kind     string
	name     string
	meta     metav1.ObjectMeta // of its pods
	spec     corev1.PodSpec
	selector *metav1.LabelSelector // nil where it has none
	claims   []corev1.PersistentVolumeClaim
}

func workloads(t *testing.T, objects []object) []workload {
	t.Helper()
	var found []workload
	for _, o := range objects {
		switch o := o.typed.(type) {
		case *appsv1.Deployment:
			found = append(found, workload{"Deployment", o.Name, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec,
				o.Spec.Selector, nil})
		case *appsv1.StatefulSet:
			found = append(found, workload{"StatefulSet", o.Name, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec,
				o.Spec.Selector, o.Spec.VolumeClaimTemplates})
		case *batchv1.Job:
			found = append(found, workload{"Job", o.Name, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec, nil, nil})
		case *corev1.Pod:
			found = append(found, workload{"Pod", o.Name, o.ObjectMeta, o.Spec, nil, nil})
		case *appsv1.DaemonSet, *appsv1.ReplicaSet, *batchv1.CronJob, *corev1.ReplicationController:
			require.Failf(t, "a kind of workload that no check looks at", "%T", o)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// component is what NetworkPolicies and Services call the pods.
func (w workload) component() string { return w.meta.Labels["app.kubernetes.io/component"] }

func (w workload) containers() []corev1.Container {
	return append(append([]corev1.Container{}, w.spec.InitContainers...), w.spec.Containers...)
}

// port returns the number of a port that a container names.
func (w workload) port(name string) (int32, bool) {
	for _, c := range w.containers() {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

func (w workload) hasPort(number int32) bool {
	for _, c := range w.containers() {
		for _, p := range c.Ports {
			if p.ContainerPort == number {
				return true
			}
		}
	}
	return false
}
