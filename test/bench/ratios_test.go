package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatMovedIsPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ratios.json")
	require.NoError(t, canned(0.00008, 90, 10_000).record(file))
	same, err := canned(0.000081, 90, 10_000).compared(file)
	require.NoError(t, err)
	require.Empty(t, same.rows, "what moved by less than a tenth is noise")
	slower, err := canned(0.0002, 90, 10_000).compared(file)
	require.NoError(t, err)
	require.Contains(t, slower.String(), "CPU of a request: 200 B, 64 connections, gateway")

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = canned(0.0002, 90, 10_000).compared(file)
	require.ErrorContains(t, err, file)
}
