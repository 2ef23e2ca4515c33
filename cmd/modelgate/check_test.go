package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
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
	rule := filepath.Join(t.TempDir(), "rule.yaml")
	require.NoError(t, os.WriteFile(rule, []byte("kind: ApprovalRule\nname: all\nkeys: true\nbudget_usd_day: '5'\n"), 0o600))
	for _, args := range [][]string{{"config", "apply", "--data", r.data, "-f", rule}, {"check", "--data", r.data}} {
		require.Equal(t, exitOK, execute(t.Context(), args, io.Discard, &stderr), stderr.String())
	}
	require.Equal(t, exitFailed, execute(t.Context(), []string{"check", "--data", r.data, "--model", "nobody/none"},
		io.Discard, &stderr))
	require.Contains(t, stderr.String(), "404")
}
