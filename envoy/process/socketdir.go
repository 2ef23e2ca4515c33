package process

import (
	"fmt"
	"os"
	"path/filepath"
)

// The path of a Unix socket has at most 107 bytes on Linux and 103 on macOS. The longest name of a socket of ours fits
// into the difference.
const longestSocketDir = 80

// SocketDir returns a private folder (0700) whose sockets have paths that are short enough: run in the data folder, or a
// new temporary one where that path would be too long. The caller calls remove when no socket in it is used any more.
func SocketDir(dataDir string) (dir string, remove func() error, err error) {
	dir, err = filepath.Abs(filepath.Join(dataDir, "run"))
	if err != nil {
		return "", nil, fmt.Errorf("making the folder of sockets: %w", err)
	}
	if len(dir) > longestSocketDir {
		dir, err = os.MkdirTemp("", "modelgate-")
		if err == nil && len(dir) > longestSocketDir {
			return "", nil, fmt.Errorf("making the folder of sockets: the path %s is too long for Unix sockets", dir)
		}
	} else {
		err = os.MkdirAll(dir, 0o700)
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
