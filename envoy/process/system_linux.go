package process

import (
	"fmt"
	"syscall"
)

// childAttributes keep a terminal's signals from the child, and end it with the thread that started it, which lives as
// long as the child: no Envoy outlives a parent that was killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// raiseFileLimit sets the soft limit of open files to the hard one, for the child: Envoy needs two for each stream.
// Go raises its own limit by itself but hides that from its children.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}
