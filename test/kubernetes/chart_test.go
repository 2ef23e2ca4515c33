// Package kubernetes_test installs the chart into a real Kubernetes and proves what an operator is promised: that it
// installs under restricted pod security and network policies, serves, and drops nothing while it is upgraded, rolled
// back, scaled, broken and renewed.
//
// Run.sh makes the cluster and runs this inside of it; `go test` alone skips. The steps are one story of one
// release, in their order, and what comes through the Service comes from the node, which no network policy holds back.
package kubernetes_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	space = "gateway" // the namespace of the release
	name  = "gw-modelgate"
	host  = "." + space + ".svc.cluster.local"
)

func TestChart(t *testing.T) {
	if os.Getenv("CHART") == "" {
		t.Skip("no cluster: run make test-chart")
	}
	provider := startProvider(t)
	r := &release{chart: os.Getenv("CHART"), provider: provider}
	for _, step := range []struct {
		name string
		run  func(*testing.T, *release)
	}{
		{"it installs under restricted pod security", installs},
		{"helm test passes", passesItsTest},
		{"it answers and streams over HTTPS", answers},
		{"objects of Kubernetes declare its configuration", objects},
		{"a limit holds over all data planes", limits},
		{"a batch runs to its end", batches},
		{"network policies let through what is needed and nothing else", policies},
		{"an upgrade cuts nothing", upgrades},
		{"a rollback cuts nothing", rollsBack},
		{"values that are wrong are refused", refusesValues},
		{"a configuration that is refused changes nothing", refusesConfiguration},
		{"an image that does not exist changes nothing", refusesImage},
		{"deleted and killed pods of other parts fail nothing", survivesOthers},
		{"a deleted data plane fails nothing", survivesDeletion},
		{"a killed data plane cuts what it carried and nothing else", survivesKills},
		{"a killed job service takes its batch up again", survivesKilledJobs},
		{"certificates are renewed without a restart", renews},
		{"it is scaled by an HPA and cuts nothing", scales},
		{"it is uninstalled and leaves what is documented", uninstalls},
		{"the commands of the documents do what they say", documented},
	} {
		begun := time.Now()
		if !t.Run(step.name, func(t *testing.T) { step.run(t, r) }) {
			require.NotEmpty(t, r.key, "without a release the rest says nothing")
			r.harm = append(r.harm, step.name+": "+kubectl(t, "get", "pods", "--all-namespaces"),
				kubectl(t, "get", "events", "--all-namespaces", "--sort-by", ".lastTimestamp", "--field-selector", "type=Warning"))
		}
		t.Logf("%5.1fs %s", time.Since(begun).Seconds(), step.name)
	}
	// Once more at the end, where a log of this length is read.
	for _, harm := range r.harm {
		t.Log(harm)
	}
}

// A release is the one that all steps are about.
type release struct {
	chart    string
	provider *provider
	admin    *client // the admin API
	gateway  *client
	key      string   // of a client, with a limit that it never reaches
	harm     []string // exchanges that failed where none should have, and how the cluster was when a step failed
}

// values are the files that every installation of the test begins with.
func (r *release) values() []string {
	return []string{"--values", filepath.Join(r.chart, "examples", "trial.yaml"), "--values", os.Getenv("VALUES")}
}

// upgrade changes the release by settings, which stay, and returns what helm says.
func (r *release) upgrade(more ...string) (string, error) {
	return command("helm", append([]string{"upgrade", "gw", r.chart, "--namespace", space, "--reuse-values", "--wait"},
		more...)...)
}

func installs(t *testing.T, r *release) {
	kubectl(t, "create", "namespace", space)
	kubectl(t, "label", "namespace", space, "pod-security.kubernetes.io/enforce=restricted")
	out, err := command("helm", append([]string{"install", "gw", r.chart, "--namespace", space, "--wait", "--timeout",
		"120s"}, r.values()...)...)
	if err != nil {
		t.Log(kubectl(t, "-n", space, "get", "pods"), kubectl(t, "-n", space, "get", "events"))
	}
	require.NoError(t, err, out)
	token := secret(t, name+"-root", "admin-token")
	r.admin = newClient(t, "https://"+name+"-controlplane"+host+":8081", secret(t, name+"-controlplane-tls", "ca.crt"),
		token)
	r.gateway = newClient(t, "https://"+name+"-gateway"+host, secret(t, name+"-gateway-tls", "ca.crt"), "")
	r.key = r.newKey(t, `[{"domain":"requests","unit":"MINUTE","requests_per_unit":1000000}]`)
	r.gateway.token = r.key
	require.Zero(t, restarts(t), "containers that had to be started again")
}

func passesItsTest(t *testing.T, _ *release) {
	out, err := command("helm", "test", "gw", "--namespace", space, "--timeout", "60s", "--logs")
	require.NoError(t, err, out)
}

func uninstalls(t *testing.T, _ *release) {
	out, err := command("helm", "uninstall", "gw", "--namespace", space, "--wait", "--timeout", "120s")
	require.NoError(t, err, out)
	// Their end would be that of all objects, so it is for the operator to say. Another release has its own.
	const definitions = "app.kubernetes.io/part-of=modelgate"
	require.Contains(t, kubectl(t, "get", "crd", "-o", "name", "--selector", definitions), "models.modelgate.dev")
	kubectl(t, "delete", "crd", "--selector", definitions)
	eventually(t, 90*time.Second, "nothing is left but the root secret", func() error {
		left := kubectl(t, "-n", space, "get", "-o", "name",
			"all,configmaps,secrets,serviceaccounts,networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,persistentvolumeclaims,ingresses,roles,rolebindings")
		return equal("configmap/kube-root-ca.crt\nsecret/"+name+"-root\nserviceaccount/default", left)
	})
}
