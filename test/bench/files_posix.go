//go:build linux || darwin

package main

import (
	"math"
	"syscall"
)

// files returns how many files a process may have open.
func files() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Max
}
