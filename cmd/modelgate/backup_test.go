package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/secret"
)

// Report 15.
func TestADataFolderIsSavedWhetherItsGatewayRunsOrNot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my data")
	file := filepath.Join(t.TempDir(), "backup")
	save := func(want int) string {
		t.Helper()
		var out, errs bytes.Buffer
		require.Equal(t, want, execute(t.Context(), []string{"backup", "--data", dir, "-o", file, "--log-level", "error"},
			&out, &errs), errs.String())
		return out.String() + errs.String()
	}
	require.Contains(t, save(exitFailed), "is not the data folder of a gateway")
	require.NoDirExists(t, dir)

	data, err := datadir.Open(dir)
	require.NoError(t, err)
	sockets, remove, err := process.SocketDir(data.Path)
	require.NoError(t, err)
	p := parts.New(zap.NewNop())
	etcd, err := proc.StartEtcd(t.Context(), p, data.File(datadir.DirEtcd), sockets, 0, zap.NewNop())
	require.NoError(t, err)
	_, err = etcd.Put(t.Context(), configstore.RootKey, "fingerprint")
	require.NoError(t, err)
	book, err := ledger.Open(t.Context(), datadir.Ledger(data.Path), zap.NewNop())
	require.NoError(t, err)
	require.Contains(t, save(exitOK), "saved 1 keys", "while it runs")
	require.NoError(t, os.Remove(file))

	require.NoError(t, book.Close())
	require.NoError(t, p.Stop(t.Context()))
	require.NoError(t, remove())
	require.NoError(t, data.Close())
	require.Contains(t, save(exitOK), "saved 1 keys", "while it does not")
	again, err := datadir.Open(dir)
	require.NoError(t, err, "the folder is free again")
	require.NoError(t, again.Close())
}

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
		exit int
		want string
	}{
		"a backup that does not say what of the ledger": {save, exitUsage, "--without-ledger"},
		"a backup of a ledger that is not there": {append(save, "--ledger", "sqlite://"+filepath.Join(dir, "none")),
			exitFailed, "opening the ledger"},
		"a restore that does not say what of the ledger": {append(restore, "--pepper", pepper), exitUsage,
			"--without-ledger"},
		"a restore without the root secret": {append(restore, "--pepper", filepath.Join(dir, "other"),
			"--without-ledger"), exitFailed, "no root secret"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(tc.args...)
			require.Equal(t, tc.exit, code)
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
