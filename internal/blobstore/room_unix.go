//go:build linux || darwin

package blobstore

import (
	"fmt"
	"syscall"
)

// leavesRoom returns an error for which [IsFull] is true, if n more bytes would leave less than a twentieth of
// the disk, or less than 256 MB of a large one.
func leavesRoom(dir string, n int) error {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil {
		return nil //nolint:nilerr // the write itself tells
	}
	block := uint64(disk.Bsize)
	if kept := min(disk.Blocks*block/20, 256<<20); disk.Bavail*block < kept+uint64(n) {
		return fmt.Errorf("the last %d bytes of the disk are kept for others: %w", kept, syscall.ENOSPC)
	}
	return nil
}
