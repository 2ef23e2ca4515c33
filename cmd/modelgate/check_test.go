package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckAsksARunningGateway(t *testing.T) {
	r := startRun(t, t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, execute(t.Context(), []string{"check", "--data", r.data}, &stdout, &stderr), stderr.String())
	require.Regexp(t,
		`ok  chat completion +\d+ ms  \d+ tokens, provider echo, HTTP/2.0\nok  streamed chat completion +\d+ ms  \d+ chunks`,
		stdout.String())
	stdout.Reset()
	require.Equal(t, exitOK, execute(t.Context(), []string{"key", "list", "--data", r.data}, &stdout, &stderr),
		stderr.String())
	require.NotContains(t, stdout.String(), "modelgate check", "its key is revoked")
	require.Equal(t, exitFailed, execute(t.Context(), []string{"check", "--data", r.data, "--model", "nobody/none"},
		io.Discard, &stderr))
	require.Contains(t, stderr.String(), "404")
}
