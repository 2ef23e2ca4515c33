package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The path of a Unix socket has at most 107 bytes on Linux and 103 on macOS. The longest name of a socket of ours fits
// into the difference.
const longestSocketDir = 80

// SocketDir returns a private folder (0700) whose sockets have paths that are short enough: run in the data folder, or
// a temporary one where that path would be too long, which is the same at each start wherever it can be. The caller
// calls remove when no socket in it is used any more.
func SocketDir(dataDir string) (dir string, remove func() error, err error) {
	dir, err = filepath.Abs(filepath.Join(dataDir, "run"))
	if err != nil {
		return "", nil, fmt.Errorf("making the folder of sockets: %w", err)
	}
	if len(dir) > longestSocketDir {
		if dir, err = temporary(dir); err == nil && len(dir) > longestSocketDir {
			return "", nil, fmt.Errorf("making the folder of sockets: the path %s is too long for Unix sockets", dir)
		}
	} else {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			err = fmt.Errorf("%w: move it away; each start creates it", err)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("making the folder of sockets: %w", err)
	}
	// A folder that was there before may be open to others.
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("closing the folder of sockets to others: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// temporary makes a folder whose name depends on the long path that it stands for: what is configured with the path
// of a socket stays right. If somebody else has that name, it takes a new one.
func temporary(long string) (string, error) {
	sum := sha256.Sum256([]byte(long))
	dir := filepath.Join(os.TempDir(), "modelgate-"+hex.EncodeToString(sum[:8]))
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if info, found := os.Lstat(dir); found == nil && info.IsDir() &&
			info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
			err = nil // a process that was killed has left it
		}
	}
	if err != nil {
		return os.MkdirTemp("", "modelgate-")
	}
	return dir, nil
}
