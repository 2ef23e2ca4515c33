package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRelease makes the release of one platform twice. An Envoy is stood in for by a file: it passes as it is.
func TestRelease(t *testing.T) {
	if os.Getenv("MODELGATE_ALL") == "" {
		t.Skip("takes long: make test-all runs it")
	}
	envoy := filepath.Join(t.TempDir(), "envoy")
	require.NoError(t, os.WriteFile(envoy, []byte("an Envoy"), 0o755))
	o := options{root: root, name: name, platforms: []string{"linux/amd64"},
		envoys: map[string]string{"linux/amd64": envoy}}
	binaries, err := o.build(t.Context())
	require.NoError(t, err)
	var said [2]strings.Builder
	for i := range said {
		o.out = filepath.Join(t.TempDir(), "release")
		require.NoError(t, o.release(t.Context(), binaries, &said[i]))
	}
	require.Equal(t, said[0].String(), said[1].String(), "the same sources give the same bytes")

	version := strings.TrimPrefix(binaries[0].version(), "v")
	all, files := map[string]bool{checksumsFile: true}, []string{}
	for line := range strings.Lines(said[0].String()) {
		all[strings.TrimSpace(line[64:])] = true
	}
	entries, err := os.ReadDir(o.out)
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, all[e.Name()], "%s has no checksum", e.Name())
		files = append(files, filepath.Ext(e.Name()))
	}
	for _, kind := range []string{".gz", ".deb", ".rpm", ".tar", ".tgz", ".sh", ".rb", ".json"} {
		require.Contains(t, files, kind)
	}

	archive := "modelgate_" + version + "_linux_amd64"
	packed := unpacked(t, filepath.Join(o.out, archive+".tar.gz"))
	require.Equal(t, "an Envoy", packed[archive+"/envoy"])
	require.Contains(t, packed[archive+"/systemd/modelgate.service"], "modelgate run")
	require.Contains(t, packed[archive+"/THIRD_PARTY_NOTICES"], "github.com/envoyproxy/go-control-plane@")
	for path, text := range packed {
		if strings.Contains(path, "/completions/") {
			require.NotContains(t, text, ".cache", "the path of the machine that made it")
		}
	}
	chart := unpacked(t, filepath.Join(o.out, "modelgate-"+strings.TrimPrefix(binaries[0].tag(), "v")+".tgz"))
	reference, err := os.ReadFile(filepath.Join(o.out, imageReference))
	require.NoError(t, err)
	_, digest, _ := strings.Cut(strings.TrimSpace(string(reference)), "@")
	require.Contains(t, chart["modelgate/values.yaml"], "digest: \""+digest+"\"")
	require.Contains(t, chart["modelgate/Chart.yaml"], "appVersion: "+binaries[0].tag())

	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		o.installs(t, version)
	}
	o.version = "v999.0.0"
	require.ErrorContains(t, o.release(t.Context(), binaries, io.Discard), "and not v999.0.0")
}

// installs runs the install script, which gets the archive from a folder.
func (o options) installs(t *testing.T, version string) {
	downloads, err := filepath.Abs(o.out)
	require.NoError(t, err)
	folder := t.TempDir()
	install := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(o.out, "install.sh"), folder)
		cmd.Env = append(os.Environ(), "MODELGATE_DOWNLOADS=file://"+downloads)
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	said, err := install()
	require.NoError(t, err, said)
	require.Contains(t, said, version)
	require.FileExists(t, filepath.Join(folder, "lib", "modelgate", "envoy"))
	archive := filepath.Join(o.out, "modelgate_"+version+"_linux_amd64.tar.gz")
	text, err := os.ReadFile(archive)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(archive, slices.Concat(text, []byte("x")), 0o644))
	said, err = install()
	require.Error(t, err)
	require.Contains(t, said, "has the SHA-256")
}

// unpacked returns the files of an archive.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	all := map[string]string{}
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		all[header.Name] = string(text)
	}
}
