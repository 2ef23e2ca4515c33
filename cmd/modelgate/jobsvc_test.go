package main

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheJobServiceSaysWhatItLacks(t *testing.T) {
	for want, args := range map[string][]string{
		"--blobs is missing": {"jobsvc"},
		"no driver registered": {"jobsvc", "--blobs", "gopher://x", "--admin", "127.0.0.1:0", "--listen", "unix://" +
			t.TempDir() + "/s"},
		"a folder is written file:///": {"jobsvc", "--blobs", "file://x/y", "--listen", "unix://" + t.TempDir() + "/s"},
		"--listen and --gateway":       {"jobsvc", "--blobs", "mem://", "--listen", "0.0.0.0:1"},
	} {
		var stderr bytes.Buffer
		exit := exitUsage
		if slices.Contains(args, "--blobs") && args[2] != "mem://" { // a store that cannot be opened
			exit = exitFailed
		}
		require.Equal(t, exit, execute(t.Context(), args, io.Discard, &stderr), want)
		require.Contains(t, stderr.String(), want)
	}
}
