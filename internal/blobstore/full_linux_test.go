package blobstore_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/testenv"
)

// smallDisk is where the child process mounts a file system of 1 MB.
const smallDisk = "MODELGATE_TEST_SMALL_DISK"

func TestAFullDisk(t *testing.T) {
	if os.Getenv(smallDisk) != "" {
		fillDisk(t, os.Getenv(smallDisk))
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		testenv.Missing(t, "a mount namespace, for a small disk: "+err.Error(), "")
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

func fillDisk(t *testing.T, dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Missing(t, "the right to mount a small disk: "+err.Error(), "")
	}
	b, err := blobstore.Open(t.Context(), "file://"+filepath.ToSlash(dir))
	require.NoError(t, err)
	require.NoError(t, b.WriteAll(t.Context(), "files/small", make([]byte, 100<<10), nil))
	for _, wellBehaved := range []bool{true, false} {
		ctx, giveUp := context.WithCancel(t.Context())
		w, err := b.NewWriter(ctx, "files/large", &blob.WriterOptions{ContentType: "text/plain"})
		require.NoError(t, err)
		for err == nil {
			_, err = w.Write(make([]byte, 64<<10))
		}
		require.True(t, blobstore.IsFull(err), "%v", err)
		require.False(t, blobstore.IsMissing(err))
		// etcd, which may be on the same disk, ends where it cannot write.
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), make([]byte, 40<<10), 0o600))
		require.NoError(t, os.Remove(filepath.Join(dir, "etcd")))
		if wellBehaved {
			giveUp()
		}
		require.Error(t, w.Close(), "half a blob is none")
		giveUp()
		require.Equal(t, []string{"files/small"}, onDisk(t, dir))
	}
	require.NoError(t, b.WriteAll(t.Context(), "files/other", make([]byte, 100<<10), nil), "there is room again")
}
