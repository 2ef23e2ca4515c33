package testenv

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// A process that is busy is stopped once Pause has returned.
func TestPause(t *testing.T) {
	if runtime.GOOS != "linux" {
		Missing(t, "/proc, from which what a process does is read", "")
	}
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	})
	if standsStill(busy.Process.Pid) {
		t.Fatal("it stands still before it is stopped")
	}
	for range 20 {
		Pause(t, busy.Process.Pid)
		if !standsStill(busy.Process.Pid) {
			t.Fatal("it goes on")
		}
		if err := busy.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
}
