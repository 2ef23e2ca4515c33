package process

import (
	"fmt"
	"syscall"
)

// openMax is the most that macOS lets a process ask for, whatever its hard limit says.
const openMax = 10240

// childAttributes keep a terminal's signals from the child. There is no way here to end it with a parent that is
// killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// raiseFileLimit sets the soft limit of open files as high as it goes, for the child: Envoy needs two for each stream.
// Go raises its own limit by itself but hides that from its children.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = min(limit.Max, openMax)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}
