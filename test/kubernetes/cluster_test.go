package kubernetes_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// command runs a program and returns what it says, of which errors are a part.
func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command("kubectl", args...)
	c.Stdout, c.Stderr = &out, &errs
	require.NoError(t, c.Run(), "kubectl %v: %s", args, &errs)
	return strings.TrimSpace(out.String())
}

// eventually waits until nothing is wrong any more.
func eventually(t *testing.T, limit time.Duration, what string, wrong func() error) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for {
		err := wrong()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			require.FailNow(t, "gave up waiting", "%s, after %s: %v", what, limit, err)
		}
	}
}

func equal[T comparable](want, got T) error {
	if want != got {
		return fmt.Errorf("want %v, got %v", want, got)
	}
	return nil
}

func secret(t *testing.T, name, key string) string {
	t.Helper()
	var s struct{ Data map[string]string }
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "-n", space, "get", "secret", name, "-o", "json")), &s))
	value, err := base64.StdEncoding.DecodeString(s.Data[key])
	require.NoError(t, err)
	require.NotEmpty(t, value, "%s of the secret %s", key, name)
	return string(value)
}

// A pod is what the test wants to know of one.
type pod struct {
	Metadata struct {
		Name, UID         string
		Labels            map[string]string
		DeletionTimestamp string
	}
	Status struct {
		PodIP                                    string
		Conditions                               []struct{ Type, Status string }
		ContainerStatuses, InitContainerStatuses []container
	}
}

type container struct {
	Name, ContainerID string
	RestartCount      int
	Ready             bool
}

// pods are those of a component that are not on their way out.
func pods(t *testing.T, component string) []pod {
	t.Helper()
	return podsIn(t, space, "app.kubernetes.io/component="+component)
}

func podsIn(t *testing.T, namespace, selector string) []pod {
	t.Helper()
	var list struct{ Items []pod }
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "-n", namespace, "get", "pods", "-l", selector, "-o", "json")),
		&list))
	var alive []pod
	for _, p := range list.Items {
		if p.Metadata.DeletionTimestamp == "" {
			alive = append(alive, p)
		}
	}
	return alive
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

func (p pod) containers() []container {
	return append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...)
}

// awaitPods waits until a component has so many pods, all of them ready, and none that is still ending.
func awaitPods(t *testing.T, component string, n int) []pod {
	t.Helper()
	var found []pod
	eventually(t, 2*time.Minute, fmt.Sprintf("%d pods of %s", n, component), func() error {
		found = pods(t, component)
		all := kubectl(t, "-n", space, "get", "pods", "-l", "app.kubernetes.io/component="+component, "-o", "name")
		if len(found) != n || strings.Count(all, "pod/") != n {
			return fmt.Errorf("there are %s", all)
		}
		for _, p := range found {
			if !p.ready() {
				return fmt.Errorf("%s is not ready", p.Metadata.Name)
			}
		}
		return nil
	})
	return found
}

// restarts is how often containers of the release were started again.
func restarts(t *testing.T) int {
	t.Helper()
	n := 0
	for _, p := range podsIn(t, space, "app.kubernetes.io/instance=gw") {
		for _, c := range p.containers() {
			n += c.RestartCount
		}
	}
	return n
}

// process is the first process of a container, as the node numbers it. WORK of cluster.sh is where we are.
func (p pod) process(t *testing.T, name string) int {
	t.Helper()
	for _, c := range p.containers() {
		if c.Name != name {
			continue
		}
		out, err := command("ctr", "-a", "ctd/socket", "-n", "k8s.io", "tasks", "list")
		require.NoError(t, err, out)
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) == 3 && "containerd://"+f[0] == c.ContainerID {
				pid, err := strconv.Atoi(f[1])
				require.NoError(t, err)
				return pid
			}
		}
	}
	require.FailNow(t, "no process", "of container %s of %s", name, p.Metadata.Name)
	return 0
}

// child is the only child of a process.
func child(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil || strings.TrimSpace(string(text)) == "" {
		// Kernels without that file: the process whose parent it is.
		out, err := command("sh", "-c", fmt.Sprintf("grep -l '^PPid:[[:space:]]*%d$' /proc/[0-9]*/status", pid))
		require.NoError(t, err, out)
		text = []byte(strings.Split(strings.TrimPrefix(out, "/proc/"), "/")[0])
	}
	n, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(t, err)
	return n
}
