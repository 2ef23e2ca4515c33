// Package datadir is the folder of all that a gateway on one machine keeps.
//
// The files that say where the gateway is are there only while it runs. Scripts and the command line read them.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/modelgate/modelgate/internal/atomicfile"
)

// Names in the folder.
const (
	FileURL        = "url"         // base URL of the gateway, without /v1
	FileAdmin      = "admin"       // URL of the admin API
	FileKey        = "key"         // the first key, 0600
	FileAdminToken = "admin-token" // lets the command line in at the admin API, 0600
	FilePepper     = "pepper"      // the root of all secrets that are kept, 0600

	DirEtcd  = "etcd"
	DirBlobs = "blobs" // files, unless --blobs says where else
	DirSpool = "spool" // the records that the ledger has not yet

	fileLedger = "ledger.db" // what was used and what it cost
	fileLock   = "lock"
)

// A Dir is the folder, locked for one process.
type Dir struct {
	Path string
	lock *os.File
}

// ErrRuns means that another process has a data folder.
var ErrRuns = errors.New("another modelgate runs")

// Open makes the folder if it is missing and locks it until close. The lock ends with the process, however
// that ends.
func Open(path string) (*Dir, error) {
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
			return nil, fmt.Errorf("%w in %s%s", ErrRuns, path, holder(path))
		}
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	d := &Dir{Path: path, lock: lock}
	if err := errors.Join(lock.Truncate(0), d.writePid(), d.forgetURLs()); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the data folder: %w", err), lock.Close())
	}
	return d, nil
}

func (d *Dir) writePid() error {
	_, err := d.lock.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	return err
}

// holder says which process holds the lock, if that can be read.
func holder(path string) string {
	text, err := os.ReadFile(filepath.Join(path, fileLock))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// Close removes what is true only while the gateway runs, and unlocks the folder.
func (d *Dir) Close() error { return errors.Join(d.forgetURLs(), d.lock.Close()) }

// File returns the path of a file in the folder.
func (d *Dir) File(name string) string { return filepath.Join(d.Path, name) }

// Write replaces a file that everyone may read.
func (d *Dir) Write(name, line string) error {
	return atomicfile.Write(d.File(name), []byte(line+"\n"), 0o644)
}

func (d *Dir) forgetURLs() error {
	var errs []error
	for _, name := range []string{FileURL, FileAdmin} {
		if err := os.Remove(d.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%w: move it away, and it is created again", err))
		}
	}
	return errors.Join(errs...)
}

// Blobs is the address of the blob store in a folder. Addresses have whole paths.
func Blobs(dir string) string {
	path := filepath.Join(dir, DirBlobs)
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// Ledger is the address of the ledger in a folder.
func Ledger(dir string) string {
	return "sqlite://" + filepath.Join(dir, fileLedger)
}
