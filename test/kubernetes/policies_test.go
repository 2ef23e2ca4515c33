package kubernetes_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reaches tries to open a connection as a process of the pod would, and waits a second and a half.
func reaches(t *testing.T, from int, ip string, port int) bool {
	t.Helper()
	_, err := command("timeout", "1.5", "nsenter", "--target", fmt.Sprint(from), "--net", "bash", "-c",
		fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", ip, port))
	return err == nil
}

// arrows are what each part needs, and what an attacker who has it would try first. "outsider" is a pod of another
// namespace, "neighbour" one of the release's own that is none of its parts.
var arrows = []struct {
	from, to  string
	port      int
	container string // of the pod it is from
	allowed   bool
}{
	{"outsider", "dataplane", 8443, "", true},
	{"outsider", "dataplane", 8444, "", false},
	{"outsider", "dataplane", 9002, "", false},
	{"outsider", "dataplane", 9004, "", false},
	{"outsider", "controlplane", 18000, "", false},
	{"outsider", "controlplane", 8081, "", false},
	{"outsider", "jobsvc", 9090, "", false},
	{"outsider", "jobsvc", 9003, "", false},
	{"outsider", "etcd", 2379, "", false},
	{"outsider", "etcd", 2380, "", false},
	{"outsider", "etcd", 2381, "", false},
	{"outsider", "redis", 6379, "", false},
	{"outsider", "postgresql", 5432, "", false},
	{"outsider", "echo", 9100, "", false},
	{"neighbour", "dataplane", 8443, "", true},
	{"neighbour", "controlplane", 8081, "", true}, // examples/trial.yaml says so
	{"neighbour", "controlplane", 18000, "", false},
	{"neighbour", "dataplane", 8444, "", false},
	{"neighbour", "etcd", 2379, "", false},
	{"neighbour", "redis", 6379, "", false},
	{"dataplane", "controlplane", 18000, "envoy", true},
	{"dataplane", "redis", 6379, "envoy", true},
	{"dataplane", "jobsvc", 9090, "envoy", true},
	{"dataplane", "echo", 9100, "envoy", true},
	{"dataplane", "etcd", 2379, "envoy", false},
	{"dataplane", "etcd", 2381, "envoy", false},
	{"dataplane", "postgresql", 5432, "envoy", false},
	{"dataplane", "jobsvc", 9003, "envoy", false},
	{"dataplane", "node", 6443, "envoy", false}, // the API server
	{"controlplane", "etcd", 2379, "controlplane", true},
	{"controlplane", "postgresql", 5432, "controlplane", true},
	{"controlplane", "dataplane", 8443, "controlplane", true},
	{"controlplane", "etcd", 2380, "controlplane", false},
	{"controlplane", "redis", 6379, "controlplane", false},
	{"controlplane", "dataplane", 8444, "controlplane", false},
	{"controlplane", "jobsvc", 9090, "controlplane", false},
	{"jobsvc", "dataplane", 8444, "jobsvc", true},
	{"jobsvc", "controlplane", 18000, "jobsvc", true},
	{"jobsvc", "etcd", 2379, "jobsvc", true},
	{"jobsvc", "dataplane", 8443, "jobsvc", false},
	{"jobsvc", "redis", 6379, "jobsvc", false},
	{"jobsvc", "postgresql", 5432, "jobsvc", false},
	{"etcd", "etcd", 2380, "etcd", true},
	{"etcd", "controlplane", 18000, "etcd", false},
	{"redis", "etcd", 2379, "redis", false},
	{"redis", "dataplane", 8444, "redis", false},
	{"postgresql", "etcd", 2379, "postgresql", false},
	{"echo", "controlplane", 18000, "echo", false},
	{"echo", "etcd", 2379, "echo", false},
}

func policies(t *testing.T, _ *release) {
	kubectl(t, "create", "namespace", "foreign")
	from := map[string]int{}
	for who, namespace := range map[string]string{"outsider": "foreign", "neighbour": space} {
		from[who] = lookout(t, namespace, who)
	}
	at := map[string]pod{}
	for _, component := range []string{"dataplane", "controlplane", "jobsvc", "etcd", "redis", "postgresql", "echo"} {
		at[component] = pods(t, component)[0]
	}
	other := pods(t, "etcd")[1] // members talk to each other, not to themselves
	for _, a := range arrows {
		if a.container != "" {
			from[a.from] = at[a.from].process(t, a.container)
		}
	}
	var all sync.WaitGroup
	results := make([]string, len(arrows))
	for i, a := range arrows {
		ip := at[a.to].Status.PodIP
		if a.to == "node" {
			ip = "10.88.0.1"
		} else if a.from == "etcd" && a.to == "etcd" {
			ip = other.Status.PodIP
		}
		all.Go(func() {
			switch {
			case !reaches(t, 1, ip, a.port): // the node, which is never refused
				results[i] = "nobody listens there"
			case reaches(t, from[a.from], ip, a.port) != a.allowed:
				results[i] = fmt.Sprintf("allowed should be %t", a.allowed)
			}
		})
	}
	all.Wait()
	for i, a := range arrows {
		require.Empty(t, results[i], "%s to %s:%d", a.from, a.to, a.port)
	}
	kubectl(t, "delete", "namespace", "foreign", "--wait=false")
}

// lookout starts a pod that does nothing, and returns its process.
func lookout(t *testing.T, namespace, name string) int {
	t.Helper()
	eventually(t, 10*time.Second, "the namespace is set up", func() error {
		_, err := command("kubectl", "-n", namespace, "get", "serviceaccount", "default")
		return err
	})
	kubectl(t, "-n", namespace, "run", name, "--image=localhost/pause:test", "--image-pull-policy=Never",
		"--labels=role="+name, "--overrides",
		`{"spec":{"automountServiceAccountToken":false,"terminationGracePeriodSeconds":1,"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
		 "containers":[{"name":"`+name+`","image":"localhost/pause:test","imagePullPolicy":"Never","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`)
	t.Cleanup(func() { kubectl(t, "-n", namespace, "delete", "pod", name, "--ignore-not-found") })
	var found pod
	eventually(t, 30*time.Second, name+" runs", func() error {
		all := podsIn(t, namespace, "role="+name)
		if len(all) != 1 || !all[0].ready() {
			return fmt.Errorf("%v", all)
		}
		found = all[0]
		return nil
	})
	return found.process(t, name)
}
