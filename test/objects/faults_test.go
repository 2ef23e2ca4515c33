package objects_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

func contains(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("%q is not in %s", part, text)
	}
	return nil
}

// rights returns what the chart gives the control plane, for the user modelgate.
func (c *cluster) rights(t *testing.T, values ...string) []string {
	t.Helper()
	helm := exec.Command(c.binary, "template", "gw", "../../charts/modelgate", "--namespace", "platform", "--set",
		strings.Join(append(values, "kubernetes.enabled=true,kubernetes.definitions=false"), ","), "--show-only", "templates/controlplane/kubernetes.yaml")
	helm.Args[0] = "helm"
	out, err := helm.Output()
	require.NoError(t, err)
	text := strings.ReplaceAll(string(out), "{kind: ServiceAccount, name: gw-modelgate-controlplane, namespace: platform}",
		"{kind: User, name: modelgate, apiGroup: rbac.authorization.k8s.io}")
	require.Contains(t, text, "kind: User")
	var all []string
	for _, d := range strings.Split(text, "\n---\n") {
		if strings.Contains(d, "kind:") {
			all = append(all, d)
		}
	}
	return all
}

// TestTheRightsOfTheChartSufficeAndAMissingOneIsNamed. Without the right to say what became of an object, it is
// written all the same. A control plane that dies between the two leaves the same.
func TestTheRightsOfTheChartSufficeAndAMissingOneIsNamed(t *testing.T) {
	c := newCluster(t)
	c.namespace(t, "platform", "")
	var withheld string
	for _, right := range c.rights(t) {
		if strings.Contains(right, "kind: ClusterRole\nmetadata:\n  name: platform-gw-modelgate-objects\n") {
			withheld = right
			right = strings.ReplaceAll(right, "verbs: [patch]", "verbs: [get]")
		}
		c.apply(t, right)
	}
	require.NotEmpty(t, withheld)
	dir := t.TempDir()
	flags := []string{"--kubernetes", "--kubernetes-config", c.kubeconfig(t, "modelgate"), "--kubernetes-namespace",
		"platform"}
	g := harness.Run(t, dir, flags...)
	c.apply(t, object("Provider", "platform/p", local), object("Key", "platform/web", "{display_name: web}"))
	read := func() (string, error) {
		return harness.Command(t, "", "config", "get", "--data", dir, "provider", "p", "-o", "json")
	}
	harness.Eventually(t, "the provider is stored", func() error { _, err := read(); return err })
	g.WaitFor(t, `cannot patch resource \"providers/status\"`)
	before, err := read()
	require.NoError(t, err)
	g.Kill()

	c.apply(t, withheld)
	c.delete(t, "Key", "platform", "web") // while nobody looks
	harness.Run(t, dir, flags...)
	c.has(t, "Provider", "platform/p", programmed)
	after, err := read()
	require.NoError(t, err)
	require.Equal(t, before, after, "what is stored already is not written again")
	harness.Eventually(t, "the key is revoked", func() error {
		if out := harness.Must(t, "", "key", "list", "--data", dir); strings.Contains(out, " web ") {
			return fmt.Errorf("it is there: %s", out)
		}
		return nil
	})
	// Secrets of namespaces that nobody has named cannot be read.
	c.apply(t, object("Organization", "platform/acme", "{}"))
	c.namespace(t, "team-a", "modelgate.dev/organization: acme")
	c.apply(t, object("Key", "team-a/web", "{display_name: web}"))
	harness.Eventually(t, "a condition names the right", func() error {
		why := c.has(t, "Key", "team-a/web", "ResolvedRefs False Forbidden")
		return contains(why, `cannot list resource "secrets" in API group "" in the namespace "team-a"`)
	})
}

// TestADefinitionThatIsMissingIsNamed, and all other kinds go on.
func TestADefinitionThatIsMissingIsNamed(t *testing.T) {
	c := newCluster(t)
	c.namespace(t, "platform", "")
	c.delete(t, "CustomResourceDefinition", "", "checkers."+crd.Group)
	g := c.gateway(t, "admin")
	g.WaitFor(t, "the CustomResourceDefinition checkers.modelgate.dev is not installed")
	c.apply(t, object("Provider", "platform/p", local))
	c.has(t, "Provider", "platform/p", programmed)
}

// TestTheAPIServerMayBeAway: the gateway goes on, and then learns what it has missed.
func TestTheAPIServerMayBeAway(t *testing.T) {
	c, g := start(t)
	c.apply(t, object("Provider", "platform/p", local), object("Provider", "platform/q", local))
	c.has(t, "Provider", "platform/q", programmed)
	c.Kill()
	harness.Must(t, "kind: Provider\nname: by-hand\nvendor: echo\nendpoint: http://127.0.0.1:9\n", "config", "apply",
		"--data", g.Dir, "-f", "-")
	require.Equal(t, 200, g.AsCases().Do(t, "POST", "/v1/chat/completions",
		`{"model": "echo/echo", "messages": [{"role": "user", "content": "hello"}]}`).Status)
	c.start(t)
	c.apply(t, object("Provider", "platform/r", local))
	c.delete(t, "Provider", "platform", "q")
	c.has(t, "Provider", "platform/r", programmed)
	gone(t, g, "provider", "q")
}

// TestManyObjectsAtOnce: all of them are in force and say so, and are stored with a few writes. It prints how long
// that takes. Ten seconds are the bar for 5,000 objects, which MODELGATE_ALL=1 makes.
func TestManyObjectsAtOnce(t *testing.T) {
	c := newCluster(t)
	c.namespace(t, "platform", "")
	c.apply(t, object("Provider", "platform/p", local))
	n := testenv.Size(500, 5000)
	var making sync.WaitGroup
	for part := range 16 {
		making.Go(func() {
			for i := part; i < n; i += 16 {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": crd.Group + "/" + crd.Version,
					"kind": "Model", "metadata": map[string]any{"name": "m-" + strconv.Itoa(i)},
					"spec": map[string]any{"targets": []any{map[string]any{"provider": "p", "model": "m"}}}}}
				if _, err := c.on("Model", "platform").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
					t.Errorf("making a Model: %v", err)
					return
				}
			}
		})
	}
	making.Wait()
	require.False(t, t.Failed())
	list, err := c.on("Model", "platform").List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	w, err := c.on("Model", "platform").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()
	g := c.gateway(t, "admin")
	began := time.Now()
	for i := 0; i < n; i += n / 100 { // of those the last ones matter, which are nobody knows which
		harness.Eventually(t, "the data plane knows the model", func() error {
			if a := g.AsCases().Do(t, "GET", "/v1/models/m-"+strconv.Itoa(i), ""); a.Status != 200 {
				return fmt.Errorf("%d: %s", a.Status, a.Body)
			}
			return nil
		})
	}
	after := time.Since(began)
	done := map[string]bool{}
	for late := time.After(2 * time.Minute); len(done) < n; {
		select {
		case event := <-w.ResultChan():
			if o, ok := event.Object.(*unstructured.Unstructured); ok && isProgrammed(o) {
				done[o.GetName()] = true
			}
		case <-late:
			t.Fatalf("%d of %d are programmed", len(done), n)
		}
	}
	t.Logf("%d objects are in force after %v, and all say so after %v; the gateway has %s", n, after, time.Since(began),
		resident(t, g.PID()))
	var models []struct{ Status struct{ Revision int64 } }
	all := harness.Must(t, "", "config", "get", "--data", g.Dir, "model", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(all), &models))
	writes := map[int64]bool{}
	for _, m := range models {
		writes[m.Status.Revision] = true
	}
	require.GreaterOrEqual(t, len(models), n)
	require.Less(t, len(writes), n/10, "writes to etcd")
}

func isProgrammed(o *unstructured.Unstructured) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		if m := one.(map[string]any); m["type"] == crd.Programmed && m["status"] == "True" {
			return true
		}
	}
	return false
}

// resident returns the memory of a process.
func resident(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.Command("grep", "-E", "VmRSS|VmHWM", fmt.Sprintf("/proc/%d/status", pid)).Output()
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(out)), " ")
}
