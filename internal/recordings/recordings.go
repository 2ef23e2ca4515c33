// Package recordings has recorded responses of real vendors, for tests to replay: one archive per vendor, and INDEX.md
// with the source and the licence of each recording. README.md describes the format of an archive and how to make it
// again.
//
// Recordings are data. Nobody edits them, and their text never becomes code.
package recordings

import (
	"archive/zip"
	"bytes"
	"embed"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed *.zip
var archives embed.FS

// Of opens the recordings of a vendor.
func Of(t testing.TB, vendor string) fs.FS {
	t.Helper()
	data, err := archives.ReadFile(vendor + ".zip")
	require.NoError(t, err)
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return archive
}

// Vendors returns whose recordings there are, in order.
func Vendors(t testing.TB) []string {
	t.Helper()
	vendors := Glob(t, archives, "*.zip")
	for i, name := range vendors {
		vendors[i] = strings.TrimSuffix(name, ".zip")
	}
	return vendors
}

// Glob returns the paths that match. There must be at least one.
func Glob(t testing.TB, files fs.FS, pattern string) []string {
	t.Helper()
	paths, err := fs.Glob(files, pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	return paths
}

// Read returns a file.
func Read(t testing.TB, files fs.FS, path string) []byte {
	t.Helper()
	data, err := fs.ReadFile(files, path)
	require.NoError(t, err)
	return data
}
