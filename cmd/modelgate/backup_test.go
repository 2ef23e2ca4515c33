package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/secret"
)

func TestBackupAndRestoreAreCommands(t *testing.T) {
	dir := t.TempDir()
	pepper, file := filepath.Join(dir, "pepper"), filepath.Join(dir, "backup")
	root, err := secret.LoadRoot(pepper)
	require.NoError(t, err)
	from, to := etcdtest.New(t), etcdtest.New(t)
	_, err = from.Client(t).Put(t.Context(), configstore.RootKey, root.Fingerprint())
	require.NoError(t, err)
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = execute(t.Context(), append(args, "--log-level", "error"), &out, &errs)
		return code, out.String(), errs.String()
	}
	save := []string{"backup", "--etcd-endpoints", from.Endpoint(), "-o", file}
	restore := []string{"restore", file, "--etcd-endpoints", to.Endpoint()}

	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a backup that does not say what of the ledger":  {save, "--without-ledger"},
		"a backup of a ledger that is not there":         {append(save, "--ledger", "sqlite://"+filepath.Join(dir, "none")), "opening the ledger"},
		"a restore that does not say what of the ledger": {append(restore, "--pepper", pepper), "--without-ledger"},
		"a restore without the root secret":              {append(restore, "--pepper", filepath.Join(dir, "other"), "--without-ledger"), "no root secret"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(tc.args...)
			require.Equal(t, exitFailed, code)
			require.Contains(t, stderr, tc.want)
		})
	}
	for _, made := range []string{"none", "other", "backup"} {
		_, err := os.Stat(filepath.Join(dir, made))
		require.ErrorIs(t, err, os.ErrNotExist, "nothing is made by what fails")
	}

	t.Setenv("MODELGATE_LEDGER", "postgres://nobody.invalid/x") // as in a control plane's pod, which cannot unset it
	code, out, stderr := run("backup", "--etcd-endpoints", from.Endpoint(), "--without-ledger", "-o", "-")
	require.Equal(t, exitOK, code, stderr)
	piped := filepath.Join(t.TempDir(), "piped")
	require.NoError(t, os.WriteFile(piped, []byte(out), 0o600))
	other := etcdtest.New(t)
	in, err := os.Open(piped)
	require.NoError(t, err)
	was := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = was })
	code, out, stderr = run("restore", "-", "--etcd-endpoints", other.Endpoint(), "--pepper", pepper, "--without-ledger")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, out, "restored 1 keys")

	code, out, stderr = run(append(save, "--without-ledger")...)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, out, "saved 1 keys")
	code, out, stderr = run(append(restore, "--pepper", pepper, "--without-ledger")...)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, out, "restored 1 keys")
	held, err := to.Client(t).Get(t.Context(), configstore.RootKey)
	require.NoError(t, err)
	require.Len(t, held.Kvs, 1)
	code, _, stderr = run(append(restore, "--pepper", pepper, "--without-ledger")...)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "etcd is not empty")
}
