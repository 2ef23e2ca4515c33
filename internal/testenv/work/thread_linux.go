package work

import (
	"syscall"
	"time"
	"unsafe"
)

const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID of clock_gettime(2); getrusage counts ticks

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err) // there is no such clock
	}
	return time.Duration(t.Nano())
}
