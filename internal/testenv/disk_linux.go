package testenv

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// ownDisk is where the child process mounts its file system.
const ownDisk = "MODELGATE_TEST_DISK"

// OnDisk runs a test in a process of its own, with a file system of its own: "tmpfs" with "size=1m" is a small disk.
func OnDisk(t *testing.T, kind, mount string, test func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(ownDisk); dir != "" {
		if err := syscall.Mount(kind, dir, kind, 0, mount); err != nil {
			Missing(t, "the right to mount a small disk: "+err.Error(), "")
		}
		test(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		Missing(t, "a mount namespace, for a small disk: "+err.Error(), "")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
