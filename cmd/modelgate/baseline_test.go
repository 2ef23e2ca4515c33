package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

// controlPlaneArgs is a command line of a control plane on the etcd, in a folder of its own.
func controlPlaneArgs(t *testing.T, etcd, config string) []string {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	return []string{
		"controlplane", "--etcd-endpoints", etcd, "--listen", "unix://" + filepath.Join(dir, "xds"), "--admin",
		"127.0.0.1:0",
		"--ledger", "sqlite://" + filepath.Join(dir, "l.db"), "--pepper", filepath.Join(dir, "pepper"), "--admin-token",
		filepath.Join(dir, "token"),
		"--config", path,
	}
}

const localProvider = "kind: Provider\nname: local\nvendor: openai\nendpoint: http://127.0.0.1:1/v1\n"

// awaitStored waits until etcd has the key since the revision, or the command has ended.
func awaitStored(t *testing.T, etcd *clientv3.Client, key string, since int64, exit <-chan int, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case answer := <-etcd.Watch(ctx, key, clientv3.WithRev(since)):
		require.NoError(t, answer.Err())
		require.NotEmpty(t, answer.Events)
	case code := <-exit:
		require.FailNow(t, "it ended", "exit code %d\n%s", code, stderr)
	}
}

func TestAControlPlaneAppliesItsFilesAtEachStart(t *testing.T) {
	etcd := etcdtest.New(t)
	client := etcd.Client(t)
	const key = "/modelgate/v1/providers/local"
	args := controlPlaneArgs(t, etcd.Endpoint(), localProvider)
	since := int64(1)
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		var stderr bytes.Buffer
		exit := make(chan int, 1)
		go func() { exit <- execute(ctx, args, io.Discard, &stderr) }()
		awaitStored(t, client, key, since, exit, &stderr)
		stop()
		require.Equal(t, exitOK, <-exit, stderr.String())
		deleted, err := client.Delete(t.Context(), key) // somebody's change, which the next start makes good
		require.NoError(t, err)
		since = deleted.Header.Revision + 1
	}
}

func TestFilesThatAreRefusedEndTheControlPlane(t *testing.T) {
	etcd := etcdtest.New(t)
	for name, tc := range map[string]struct{ config, says string }{
		"wrong by itself":           {"kind: Provider\nname: local\nvendor: nobody\n", "vendor"},
		"wrong with what is stored": {"kind: Model\nname: m\ntargets: [{provider: nowhere, model: x}]\n", "nowhere"},
		"no YAML":                   {"kind: [", "config.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			require.Equal(t, exitFailed, execute(t.Context(), controlPlaneArgs(t, etcd.Endpoint(), tc.config), io.Discard,
				&stderr))
			require.Contains(t, stderr.String(), "--config")
			require.Contains(t, stderr.String(), tc.says)
		})
	}
}

// A conflict with what is stored is none with somebody else's change: it does not go away.
func TestFilesThatTakeTheLastOwnerAwayEndTheControlPlane(t *testing.T) {
	etcd := etcdtest.New(t)
	const owner = `{"name":"ann","role":"OWNER","passwordHash":"$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g"}`
	_, err := etcd.Client(t).Put(t.Context(), "/modelgate/v1/accounts/ann", owner)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	args := controlPlaneArgs(t, etcd.Endpoint(), "kind: Account\nname: ann\nrole: VIEWER\n")
	require.Equal(t, exitFailed, execute(ctx, args, io.Discard, &stderr), stderr.String())
	require.Contains(t, stderr.String(), "last account")
}
