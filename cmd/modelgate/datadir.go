package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/atomicfile"
)

// Names in the data folder that nobody else knows.
const (
	fileLock = "lock"
	dirEtcd  = "etcd"
	dirBlobs = "blobs" // files, unless --blobs says where else
)

// A dataDir is the folder that holds everything a gateway keeps, locked for one process.
type dataDir struct {
	path string
	lock *os.File
}

// errRuns means that another process has a data folder.
var errRuns = errors.New("another modelgate runs")

// openDataDir makes the folder where it is missing and locks it until close. The lock ends with the process, however
// that ends.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening the data folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w: give another folder with --data", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, fileLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w: move it away, and it is created again", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w in %s%s", errRuns, path, holder(path))
		}
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	d := &dataDir{path: path, lock: lock}
	if err := errors.Join(lock.Truncate(0), d.writePid(), d.forgetURLs()); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the data folder: %w", err), lock.Close())
	}
	return d, nil
}

func (d *dataDir) writePid() error {
	_, err := d.lock.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	return err
}

// holder says which process holds the lock, where that can be read.
func holder(path string) string {
	text, err := os.ReadFile(filepath.Join(path, fileLock))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// close removes what is true only while the gateway runs, and unlocks the folder.
func (d *dataDir) close() error { return errors.Join(d.forgetURLs(), d.lock.Close()) }

// file returns the path of a file in the folder.
func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// write replaces a file that everyone may read.
func (d *dataDir) write(name, line string) error {
	return atomicfile.Write(d.file(name), []byte(line+"\n"), 0o644)
}

func (d *dataDir) forgetURLs() error {
	var errs []error
	for _, name := range []string{admincli.FileURL, admincli.FileAdmin} {
		if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%w: move it away, and it is created again", err))
		}
	}
	return errors.Join(errs...)
}
