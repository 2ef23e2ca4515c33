package auditship

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/testenv"
)

// smallDisk is where the child process mounts a file system of 1 MB.
const smallDisk = "MODELGATE_TEST_SMALL_DISK"

func TestAFullAndAReadOnlyDisk(t *testing.T) {
	if os.Getenv(smallDisk) != "" {
		fillDisk(t, os.Getenv(smallDisk))
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullAndAReadOnlyDisk$", "-test.v")
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
	s := &sender{write: (*os.File).Write}
	path := filepath.Join(dir, "audit.jsonl")
	items, _, err := itemsOf([]adminapi.AuditEntry{{ID: "1", Diff: long(100 << 10)}, {ID: "2", Diff: long(100 << 10)}})
	require.NoError(t, err)
	b, taken := batch{items: items}, 0
	for ; taken < 100; taken++ {
		if got := s.file(t.Context(), path, b); got.says != "" {
			require.Equal(t, "the file cannot be written: no space left on device", got.says)
			break
		}
	}
	require.Less(t, taken, 6)
	k, broken := linesOf(t, path)
	require.Empty(t, broken, "half a batch is taken back")
	require.Len(t, k.taken(), 2*taken)

	require.NoError(t, os.Truncate(path, 0)) // somebody makes room
	require.Empty(t, s.file(t.Context(), path, b).says)
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	require.Equal(t, "the file cannot be written: read-only file system", s.file(t.Context(), path, b).says)
}
