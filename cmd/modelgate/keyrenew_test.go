package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAKeyIsRenewedWhenItIsDue(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Key{Name: "key_a"}}
	file := filepath.Join(t.TempDir(), "key")
	renew := func(exit int, more ...string) string {
		out, errOut := c.run(t, exit, append([]string{"key", "renew", "key_a", "--file", file}, more...)...)
		return out + errOut
	}
	require.Contains(t, renew(exitOK), "was renewed")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "sk-mg-rotated\n", string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	require.NoError(t, os.WriteFile(file, []byte("of today\n"), 0o600))
	require.Contains(t, renew(exitOK), "is due at 2")
	text, _ = os.ReadFile(file)
	require.Equal(t, "of today\n", string(text))
	week := time.Now().Add(-8 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(file, week, week))
	require.Contains(t, renew(exitOK), "was renewed")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Contains(t, renew(exitOK), "was renewed", "an empty file has no key")

	require.Contains(t, renew(exitUsage, "--every", "1s"), "at least a minute")
	file = filepath.Join(t.TempDir(), "none", "key")
	require.Contains(t, renew(exitFailed), "none", "it is found before the key is rotated")
	file = t.TempDir()
	require.Contains(t, renew(exitFailed), "is no file")
}
