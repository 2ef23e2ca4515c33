package main

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestTheAdminAddressNeedsTLSWhereOthersReachIt(t *testing.T) {
	etcd := etcdtest.New(t)
	dir := t.TempDir()
	run := func(exit int, args ...string) string {
		var stderr bytes.Buffer
		base := []string{"controlplane", "--etcd-endpoints", etcd.Endpoint(), "--listen", "unix://" +
			filepath.Join(t.TempDir(), "x"), "--ledger", "sqlite://" + filepath.Join(t.TempDir(), "l.db"),
			"--pepper", filepath.Join(dir, "pepper"), "--admin-token", filepath.Join(dir, "token")}
		require.Equal(t, exit, execute(t.Context(), append(base, args...), io.Discard, &stderr))
		return stderr.String()
	}
	require.Contains(t, run(exitUsage, "--admin", "0.0.0.0:0"), "--admin-cert")
	require.Contains(t, run(exitUsage, "--admin", "127.0.0.1:0", "--admin-cert", "x"),
		"--admin-cert and --admin-key need each other")
	require.Contains(t, run(exitFailed, "--admin", "127.0.0.1:0", "--admin-cert", "x", "--admin-key", "y"),
		"reading a certificate")
}
