package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

const (
	root = "../.."
	name = "registry.example/modelgate"
)

// A made is what the program wrote, once for all tests: linking takes most of the time.
type made struct {
	out       string
	reference string
	binaries  []binary
	index     v1.ImageIndex // of the layout, as its file says
	images    v1.ImageIndex // what an engine pulls
}

func TestImage(t *testing.T) {
	if os.Getenv("MODELGATE_ALL") == "" {
		t.Skip("takes long: make test-all runs it")
	}
	m := made{out: t.TempDir()}
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		b, err := build(t.Context(), root, platform)
		require.NoError(t, err)
		m.binaries = append(m.binaries, b)
	}
	var err error
	m.reference, err = write(m.out, name, m.binaries)
	require.NoError(t, err)
	m.index, err = layout.ImageIndexFromPath(filepath.Join(m.out, layoutDir))
	require.NoError(t, err)
	list, err := m.index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, list.Manifests, 3, "the image and what is in it, for each platform")
	m.images, err = m.index.ImageIndex(list.Manifests[0].Digest)
	require.NoError(t, err)

	t.Run("is whole", m.isWhole)
	t.Run("is called by its version and digest", m.isNamed)
	t.Run("has both platforms, an unprivileged user and no arguments", m.isConfigured)
	t.Run("holds the program and nothing that can be run beside it", m.holdsOneProgram)
	t.Run("trusts the public authorities", m.trusts)
	t.Run("says what is in it", m.isListed)
	t.Run("is one file as well", m.isPacked)
	t.Run("is the same when it is made again", m.isReproducible)
}

func (m made) isWhole(t *testing.T) {
	require.NoError(t, validate.Index(m.images))
	reached := map[string]int64{}
	list, err := m.index.IndexManifest()
	require.NoError(t, err)
	for _, d := range list.Manifests {
		m.reach(t, d, reached)
	}
	blobs := filepath.Join(m.out, layoutDir, "blobs", "sha256")
	entries, err := os.ReadDir(blobs)
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(blobs, e.Name()))
		require.NoError(t, err)
		digest := sha256.Sum256(text)
		require.Equal(t, e.Name(), hex.EncodeToString(digest[:]))
		require.Contains(t, reached, e.Name(), "a blob that nothing refers to")
		require.Equal(t, reached[e.Name()], int64(len(text)))
		delete(reached, e.Name())
	}
	require.Empty(t, reached, "blobs that are missing")
}

// reach notes the size of all that d refers to.
func (m made) reach(t *testing.T, d v1.Descriptor, reached map[string]int64) {
	t.Helper()
	reached[d.Digest.Hex] = d.Size
	if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
		return
	}
	var children struct {
		Manifests, Layers []v1.Descriptor
		Config            *v1.Descriptor
	}
	require.NoError(t, json.Unmarshal(m.blob(t, d.Digest), &children))
	for _, child := range append(children.Manifests, children.Layers...) {
		m.reach(t, child, reached)
	}
	if children.Config != nil {
		m.reach(t, *children.Config, reached)
	}
}

func (m made) blob(t *testing.T, digest v1.Hash) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.out, layoutDir, blobPath(digest)))
	require.NoError(t, err)
	return text
}

func (m made) isNamed(t *testing.T) {
	digest, err := m.images.Digest()
	require.NoError(t, err)
	tag := m.binaries[0].tag()
	require.Regexp(t, `^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`, tag)
	require.Equal(t, name+":"+tag+"@"+digest.String(), m.reference)
	text, err := os.ReadFile(filepath.Join(m.out, referenceFile))
	require.NoError(t, err)
	require.Equal(t, m.reference+"\n", string(text))

	list, err := m.index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, tag, list.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	require.Equal(t, name+":"+tag, list.Manifests[0].Annotations["io.containerd.image.name"])
	for _, b := range m.binaries {
		if b.platform.OS == runtime.GOOS && b.platform.Architecture == runtime.GOARCH {
			said, err := exec.Command(b.path, "--version").Output()
			require.NoError(t, err)
			require.Equal(t, "modelgate "+b.version()+"\n", string(said))
		}
	}
}

func (m made) isConfigured(t *testing.T) {
	list, err := m.images.IndexManifest()
	require.NoError(t, err)
	require.Len(t, list.Manifests, len(m.binaries))
	for i, b := range m.binaries {
		require.Equal(t, b.platform.String(), list.Manifests[i].Platform.String())
		img, err := m.images.Image(list.Manifests[i].Digest)
		require.NoError(t, err)
		config, err := img.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, b.platform.String(), config.Platform().String())
		require.Equal(t, "65532:65532", config.Config.User)
		require.Equal(t, []string{"/modelgate"}, config.Config.Entrypoint)
		require.Empty(t, config.Config.Cmd)
		require.Equal(t, b.version(), config.Config.Labels["org.opencontainers.image.version"])
		require.Equal(t, "https://github.com/modelgate/modelgate", config.Config.Labels["org.opencontainers.image.source"])
		require.Equal(t, "Apache-2.0", config.Config.Labels["org.opencontainers.image.licenses"])
		require.Equal(t, b.revision(), config.Config.Labels["org.opencontainers.image.revision"])
		require.Equal(t, b.date(), config.Created.UTC())
	}
}

// files returns what is in the image for a platform.
func (m made) files(t *testing.T, platform int) map[string]file {
	t.Helper()
	list, err := m.images.IndexManifest()
	require.NoError(t, err)
	img, err := m.images.Image(list.Manifests[platform].Digest)
	require.NoError(t, err)
	flat := mutate.Extract(img)
	defer flat.Close()
	return unpack(t, flat)
}

func unpack(t *testing.T, from io.Reader) map[string]file {
	t.Helper()
	all := map[string]file{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		require.Zero(t, header.Uid+header.Gid, "%s is not root's", header.Name)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		name := header.Name
		if header.Typeflag == tar.TypeDir {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		all[name] = file{name, header.Mode, text}
	}
}

func (m made) holdsOneProgram(t *testing.T) {
	for i, b := range m.binaries {
		files := m.files(t, i)
		for name, f := range files {
			require.True(t, strings.HasSuffix(name, "/") || name == "modelgate" || f.mode&0o111 == 0, "%s can be run", name)
			require.Zero(t, f.mode&0o022, "%s can be written to", name)
		}
		require.Contains(t, string(files["etc/passwd"].text), "nonroot:x:65532:65532:")
		want, err := os.ReadFile(b.path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, files["modelgate"].text))
		program, err := elf.NewFile(bytes.NewReader(want))
		require.NoError(t, err)
		for _, p := range program.Progs {
			require.NotEqual(t, elf.PT_INTERP, p.Type, "the program is not static")
		}
	}
}

func (m made) trusts(t *testing.T) {
	text := m.files(t, 0)["etc/ssl/certs/ca-certificates.crt"].text
	var names []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		names = append(names, c.Subject.CommonName)
	}
	require.Greater(t, len(names), 100)
	require.Contains(t, names, "ISRG Root X1")
	require.Contains(t, names, "Amazon Root CA 1")
}

func (m made) isReproducible(t *testing.T) {
	again := t.TempDir()
	reference, err := write(again, name, m.binaries)
	require.NoError(t, err)
	require.Equal(t, m.reference, reference)
	require.Equal(t, digests(t, m.out), digests(t, again))

	path := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, link(t.Context(), root, m.binaries[0].platform, path))
	linked, err := os.ReadFile(path)
	require.NoError(t, err)
	first, err := os.ReadFile(m.binaries[0].path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, linked), "the program is not the same when it is linked again")
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	require.False(t, bytes.Contains(linked, []byte(here)), "the program names the folder that it was built in")
}

func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	tree := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(tree, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		digest := sha256.Sum256(text)
		all[path] = hex.EncodeToString(digest[:])
		return err
	}))
	return all
}
