package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// printed runs a command that succeeds and returns the YAML that it prints.
func printed(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, execute(t.Context(), args, &stdout, &stderr), stderr.String())
	var out map[string]any
	require.NoError(t, yaml.Unmarshal(stdout.Bytes(), &out))
	return out
}

func TestASnippetLeavesToOthersWhatIsTheirs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kind: Gateway\nname: public\nport: 9443\n"), 0o600))
	out := printed(t, "envoy", "snippet", "--gateway", file, "--node", "mine")
	require.NotContains(t, out, "admin")
	require.NotContains(t, out, "overload_manager")
	require.NotContains(t, out["dynamic_resources"], "lds_config", "its listeners are its own")
	require.Contains(t, out["dynamic_resources"], "cds_config")
	static := out["static_resources"].(map[string]any)
	require.Len(t, static["clusters"], 3)
	var listeners []any
	for _, l := range static["listeners"].([]any) {
		listeners = append(listeners, l.(map[string]any)["name"])
	}
	require.Equal(t, []any{"again", "gateway/public"}, listeners)

	var stderr bytes.Buffer
	require.NoError(t, os.WriteFile(file, []byte("kind: Model\nname: m\ntargets: [{provider: a, model: b}]\n"), 0o600))
	require.Equal(t, exitFailed, execute(t.Context(), []string{"envoy", "snippet", "--gateway", file}, &bytes.Buffer{},
		&stderr))
	require.Contains(t, stderr.String(), "has no Gateway")
}

func TestABootstrapWithOutputFollowsItsCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "envoy")
	args := []string{"envoy", "bootstrap", "--xds-address", "plane:1", "--xds-cert", "c", "--xds-key", "k", "--xds-ca",
		"a"}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, execute(t.Context(), append(args, "--output", dir), &stdout, &stderr), stderr.String())
	require.Equal(t, filepath.Join(dir, "envoy.yaml")+"\n", stdout.String())
	for _, name := range []string{"sds-xds-certificate.yaml", "sds-xds-authorities.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		working, err := os.Getwd()
		require.NoError(t, err)
		require.Contains(t, string(text), working, "paths are absolute: Envoy may run in another folder")
	}
}
