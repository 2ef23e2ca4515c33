package testenv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Pause stops a process until it is sent SIGCONT, and returns once it stands still: a thread that is busy on another
// core goes on for a while after the signal was sent.
func Pause(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop process %d: %v", pid, err)
	}
	look, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer look.Stop()
	for !standsStill(pid) {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// standsStill reports whether every thread of a process is stopped. If that is not known, it returns true.
func standsStill(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path) // fails for a thread that has ended
		_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if err == nil && found && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}
