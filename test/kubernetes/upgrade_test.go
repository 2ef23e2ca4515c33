package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rolled waits until all pods of the parts that have no state are of a revision, and those of before have gone with
// what they carried.
func rolled(t *testing.T, revision string) {
	t.Helper()
	for component, n := range map[string]int{"controlplane": 2, "dataplane": 2, "jobsvc": 1} {
		for _, p := range awaitPods(t, component, n) {
			require.Equal(t, revision, p.Metadata.Labels["revision"], p.Metadata.Name)
		}
	}
}

func upgrades(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	out, err := r.upgrade("--timeout", "180s", "--set-string",
		"dataplane.podLabels.revision=2,controlplane.podLabels.revision=2,jobsvc.podLabels.revision=2")
	require.NoError(t, err, out)
	rolled(t, "2")
	l.unharmed(t)
}

func rollsBack(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	out, err := command("helm", "rollback", "gw", "1", "--namespace", space, "--wait", "--timeout", "180s")
	require.NoError(t, err, out)
	rolled(t, "1")
	l.unharmed(t)
}

// status is that of the release's last revision.
func status(t *testing.T) (revision int, state string) {
	t.Helper()
	out, err := command("helm", "status", "gw", "--namespace", space, "--output", "json")
	require.NoError(t, err, out)
	var s struct {
		Version int
		Info    struct{ Status string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &s), out)
	return s.Version, s.Info.Status
}

func refusesValues(t *testing.T, r *release) {
	before, _ := status(t)
	for value, why := range map[string]string{
		"dataplane.replicas=-1":                 "replicas",
		"dataplane.replica=3":                   "replica",
		"gateway.certificate.source=selfsigned": "source",
		"networkPolicy.providers.ports={https}": "ports",
	} {
		out, err := r.upgrade("--timeout", "30s", "--set", value)
		require.Error(t, err, value)
		require.Contains(t, out, why)
	}
	after, state := status(t)
	require.Equal(t, before, after)
	require.Equal(t, "deployed", state)
}

// uids are those of the pods of a component: the same pods.
func uids(t *testing.T, component string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, p := range pods(t, component) {
		all[p.Metadata.UID] = p.ready()
	}
	return all
}

// New control planes end with the error of an object that is refused. The old ones, and what they serve, stay.
func refusesConfiguration(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	planes := uids(t, "controlplane")
	out, err := r.upgrade("--timeout", "20s", "--rollback-on-failure", "--set-json",
		`config=[{"kind":"Provider","name":"bad","vendor":"nobody"}]`)
	require.Error(t, err, out)
	awaitPods(t, "controlplane", 2)
	require.Equal(t, planes, uids(t, "controlplane"))
	_, state := status(t)
	require.Equal(t, "deployed", state)
	l.unharmed(t)
}

// Without --rollback-on-failure the failed revision stays as it is, and the old pods too, until someone rolls back.
func refusesImage(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	data := uids(t, "dataplane")
	before, _ := status(t)
	out, err := r.upgrade("--timeout", "10s", "--set", "image.tag=none")
	require.Error(t, err, out)
	after, state := status(t)
	require.Equal(t, "failed", state)
	require.Equal(t, before+1, after)
	for uid := range data {
		require.True(t, uids(t, "dataplane")[uid], "a data plane of before serves")
	}
	out, err = command("helm", "rollback", "gw", fmt.Sprint(before), "--namespace", space, "--wait", "--timeout", "60s")
	require.NoError(t, err, out)
	eventually(t, time.Minute, "the pods of before are all there is", func() error {
		return equal(fmt.Sprint(data), fmt.Sprint(uids(t, "dataplane")))
	})
	awaitPods(t, "jobsvc", 1)
	awaitPods(t, "echo", 1)
	l.unharmed(t)
}
