package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func (m made) isListed(t *testing.T) {
	top, err := m.index.IndexManifest()
	require.NoError(t, err)
	images, err := m.images.IndexManifest()
	require.NoError(t, err)
	for i, b := range m.binaries {
		var artifact v1.Manifest
		require.NoError(t, json.Unmarshal(m.blob(t, top.Manifests[i+1].Digest), &artifact))
		require.Equal(t, sbomType, artifact.ArtifactType)
		require.Equal(t, images.Manifests[i].Digest, artifact.Subject.Digest)
		require.Equal(t, images.Manifests[i].Size, artifact.Subject.Size)

		list := m.blob(t, artifact.Layers[0].Digest)
		beside, err := os.ReadFile(filepath.Join(m.out, artifact.Layers[0].Annotations["org.opencontainers.image.title"]))
		require.NoError(t, err)
		require.Equal(t, string(list), string(beside))
		validSBOM(t, list)

		var bom cyclonedx.BOM
		require.NoError(t, cyclonedx.NewBOMDecoder(bytes.NewReader(list), cyclonedx.BOMFileFormatJSON).Decode(&bom))
		digest := sha256.Sum256(m.files(t, i)["modelgate"].text)
		require.Equal(t, hex.EncodeToString(digest[:]), (*bom.Metadata.Component.Hashes)[0].Value,
			"the list is of another program")
		listed := map[string]string{}
		for _, c := range *bom.Components {
			listed[c.Name] = c.Version
		}
		require.Equal(t, strings.TrimPrefix(b.info.GoVersion, "go"), listed["std"])
		require.Contains(t, listed, "golang.org/x/crypto/x509roots/fallback")
		for _, path := range []string{"google.golang.org/grpc", "go.uber.org/zap", "go.etcd.io/etcd/client/v3"} {
			required, err := exec.Command("go", "-C", root, "list", "-m", "-f", "{{.Version}}", path).Output()
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(string(required)), listed[path], path)
		}
		require.Len(t, listed, len(b.info.Deps)+2, "a module that is linked is missing")
	}
}

// validSBOM checks a list against the schema that its library carries.
func validSBOM(t *testing.T, list []byte) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(list))
	require.NoError(t, err)
	version := instance.(map[string]any)["specVersion"].(string)
	c := jsonschema.NewCompiler()
	for address, name := range map[string]string{
		"bom-" + version + ".schema.json": "bom-" + version + ".schema.json",
		"spdx.schema.json":                "spdx.schema.json",
		"jsf-0.82.schema.json":            "jsf-0.82.schemax.json",
	} {
		f, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "schema", name))
		require.NoError(t, err)
		defer f.Close()
		schema, err := jsonschema.UnmarshalJSON(f)
		require.NoError(t, err)
		require.NoError(t, c.AddResource("http://cyclonedx.org/schema/"+address, schema))
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-" + version + ".schema.json")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(instance))
}

func (m made) isPacked(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(m.out, archiveFile))
	require.NoError(t, err)
	packed := unpack(t, bytes.NewReader(text))
	for path, digest := range digests(t, filepath.Join(m.out, layoutDir)) {
		got := sha256.Sum256(packed[path].text)
		require.Equal(t, digest, hex.EncodeToString(got[:]), path)
	}
	// What `docker load` reads.
	var old []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal(packed["manifest.json"].text, &old))
	require.Len(t, old, 1)
	require.Equal(t, []string{"registry.example/modelgate:" + m.binaries[0].tag()}, old[0].RepoTags)
	var config v1.ConfigFile
	require.NoError(t, json.Unmarshal(packed[old[0].Config].text, &config))
	require.Equal(t, "amd64", config.Architecture)
	require.Len(t, old[0].Layers, len(config.RootFS.DiffIDs))
	for _, path := range old[0].Layers {
		require.NotEmpty(t, packed[path].text)
	}
}
