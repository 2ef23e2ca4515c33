package usage

import (
	"os"
	"runtime/debug"
	"syscall"
)

// reserveBytes is the disk space that a segment reserves at once.
const reserveBytes = 256 << 10

// A mapping is a file mapped into memory. A write to it reaches the operating system and survives the process, as with
// a system call. A system call would cost more than everything else in the spool. Only reserved disk space is written:
// if the disk is full, reserve fails, and never a write.
type mapping struct {
	memory   []byte
	reserved int64 // from the beginning
}

// newMapping maps a file. If that is not possible it returns nil, and the file is written with system calls.
func newMapping(f *os.File, size int64) *mapping {
	memory, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return &mapping{memory: memory}
}

// reserve reserves disk space for the file up to end, and some more up to most if there is room. It returns false if
// that is not possible.
func (m *mapping) reserve(f *os.File, end, most int64) bool {
	if end > int64(len(m.memory)) {
		return false
	}
	for _, to := range []int64{min(end+reserveBytes, max(end, most), int64(len(m.memory))), end} {
		if end > m.reserved && syscall.Fallocate(int(f.Fd()), 0, 0, to) == nil {
			m.reserved = to
		}
	}
	return end <= m.reserved
}

// write writes into reserved space. It returns false if the disk fails, which does not end the process.
func (m *mapping) write(data []byte, at int64) (done bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { done = recover() == nil }()
	copy(m.memory[at:m.reserved], data)
	return
}

func (m *mapping) close() error { return syscall.Munmap(m.memory) }
