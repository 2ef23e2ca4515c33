//go:build unix

package testenv

import (
	"syscall"
	"testing"
	"time"
)

// CPU returns the CPU time that this process has used, in user mode and in the kernel.
func CPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal("reading the CPU time: ", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
