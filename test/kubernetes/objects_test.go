package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// declared is what the step declares: a model over the built-in provider, and the key of a workload.
const declared = `
apiVersion: modelgate.dev/v1alpha1
kind: Model
metadata: {name: declared}
spec: {targets: [{provider: echo, model: echo}]}
---
apiVersion: modelgate.dev/v1alpha1
kind: Key
metadata: {name: workload}
spec: {display_name: workload, models: [declared]}
`

// objects declares configuration with the rights that the chart gives, and no others.
func objects(t *testing.T, r *release) {
	apply := func(text string) (string, error) {
		path := filepath.Join(t.TempDir(), "objects.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return command("kubectl", "-n", space, "apply", "-f", path)
	}
	out, err := apply(declared)
	require.NoError(t, err, out)
	for _, o := range []string{"model/declared", "key.modelgate.dev/workload"} {
		kubectl(t, "-n", space, "wait", "--for=condition=Programmed", "--timeout=60s", o)
	}
	table := kubectl(t, "-n", space, "get", "modelgate")
	require.Contains(t, table, "PROGRAMMED")
	workload := *r.gateway
	workload.token = secret(t, "workload-key", "api-key")
	chat := func() error {
		status, answer, err := workload.ask("POST", "/v1/chat/completions",
			`{"model": "declared", "messages": [{"role": "user", "content": "hello"}]}`, "application/json")
		if err == nil && status != 200 {
			err = fmt.Errorf("%d: %s", status, answer)
		}
		return err
	}
	require.NoError(t, chat())

	out, err = apply(strings.ReplaceAll(declared, "model: echo", "modell: echo"))
	require.Error(t, err)
	require.Contains(t, out, "modell")
	out, err = apply(strings.ReplaceAll(declared, "provider: echo", "provider: nobody"))
	require.NoError(t, err, out)
	kubectl(t, "-n", space, "wait", "--for=condition=ResolvedRefs=false", "--timeout=60s", "model/declared")
	require.NoError(t, chat(), "the last good version stays in force")

	// Another control plane takes over, and misses nothing.
	replicas := len(pods(t, "controlplane"))
	kubectl(t, "-n", space, "delete", "pod", "--selector", "app.kubernetes.io/component=controlplane", "--wait=false")
	kubectl(t, "-n", space, "delete", "key.modelgate.dev/workload")
	eventually(t, 90*time.Second, "the key is revoked", func() error {
		if err := chat(); err == nil || !strings.HasPrefix(err.Error(), "401") {
			return fmt.Errorf("it is not: %v", err)
		}
		return nil
	})
	awaitPods(t, "controlplane", replicas)
	kubectl(t, "-n", space, "delete", "model/declared")
}
