package objects_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestIdentitiesOfAMeshAreDeclaredAsDocumented: the objects of docs/istio.md are taken, with the ConfigMap that Istio
// keeps in each namespace and the Gateway that the chart makes.
func TestIdentitiesOfAMeshAreDeclaredAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/istio.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: modelgate.dev.*?)```").FindSubmatch(text)
	require.NotNil(t, found, "docs/istio.md has no objects")
	c, g := start(t)
	authority, err := os.ReadFile(filepath.Join(g.Dir, "ca.crt"))
	require.NoError(t, err)
	root, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"namespace": "platform", "name": "istio-ca-root-cert"},
		"data":     map[string]string{"root-cert.pem": string(authority)}})
	require.NoError(t, err)
	c.apply(t, string(root), object("Gateway", "platform/mesh", `{address: "::1", port: 8080}`))
	c.apply(t, strings.Split(strings.ReplaceAll(string(found[1]), "namespace: modelgate", "namespace: platform"),
		"---\n")...)
	c.has(t, "Key", "platform/team-a", accepted)
	c.has(t, "CertificateIssuer", "platform/mesh", accepted)
	c.has(t, "CertificateIssuer", "platform/mesh", "ResolvedRefs True ResolvedRefs")
}
