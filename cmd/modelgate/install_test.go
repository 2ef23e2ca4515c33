package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstallCopiesTheRunningBinary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "opt", "bin")
	self, err := os.Executable()
	require.NoError(t, err)
	want, err := os.ReadFile(self)
	require.NoError(t, err)
	for range 2 { // an init container that is run again
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitOK, execute(t.Context(), []string{"install", dir}, &stdout, &stderr), stderr.String())
		got, err := os.ReadFile(filepath.Join(dir, "modelgate"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "the copy differs")
		info, err := os.Stat(filepath.Join(dir, "modelgate"))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o555), info.Mode())
	}
	requireOnlyModelgate(t, dir)
}

func TestInstallThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "modelgate", "in the way"), 0o755))
	path := filepath.Join(t.TempDir(), "next")
	require.NoError(t, os.WriteFile(path, []byte("next"), 0o600))
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, execute(t.Context(), []string{"install", dir}, &stdout, &stderr))
	requireOnlyModelgate(t, dir)
	stderr.Reset()
	require.Equal(t, exitFailed, execute(t.Context(), []string{"install", filepath.Join(path, "bin")}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "installing into "+path)
}

// requireOnlyModelgate fails where a copy that was not finished lies about.
func requireOnlyModelgate(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "modelgate", entries[0].Name())
}
