package usage

import (
	"errors"
	"os"
	"runtime/debug"
	"syscall"
)

// reserveBytes is how much of the disk a segment takes at once.
const reserveBytes = 256 << 10

// A mapping is a file in memory. What is written to it has reached the operating system, as with a call, and outlives
// the process; a call would cost more than all else that the spool does. It is written only where the disk has given
// blocks already: a disk that is full is told by reserve, never by a write.
type mapping struct {
	memory   []byte
	reserved int64 // from the beginning
}

// newMapping maps a file. Where that cannot be done it returns nil, and the file is written with calls.
func newMapping(f *os.File, size int64) *mapping {
	memory, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return &mapping{memory: memory}
}

// reserve has the disk give blocks for the file up to an end: some more, up to most, where it has room.
func (m *mapping) reserve(f *os.File, end, most int64) error {
	if end <= m.reserved {
		return nil
	}
	if end > int64(len(m.memory)) {
		return syscall.EFBIG
	}
	var err error
	for _, to := range []int64{min(end+reserveBytes, max(end, most), int64(len(m.memory))), end} {
		for {
			if err = syscall.Fallocate(int(f.Fd()), 0, 0, to); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if err == nil {
			m.reserved = to
			return nil
		}
	}
	return err
}

// write writes into what is reserved, and reports whether it could: a disk that fails does not end the process.
func (m *mapping) write(data []byte, at int64) (done bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { done = recover() == nil }()
	copy(m.memory[at:m.reserved], data)
	return
}

func (m *mapping) close() error { return syscall.Munmap(m.memory) }
