// Package atomicfile writes files atomically: a reader sees the old file or the new one.
//
// The new file has the mode that is given to Write, and not the mode of an existing file.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts data into the file at path, whose folder must exist. A reader sees the old content or the new, also after
// a crash.
func Write(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := fill(f, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
		if info, there := os.Stat(path); there == nil && info.IsDir() {
			return fmt.Errorf("writing %s: a folder is in its place: move it away, and the file is created again (%w)", path, err)
		}
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// fill writes and closes f. The mode is set before the data is there: a secret is never readable to others.
func fill(f *os.File, data []byte, mode fs.FileMode) error {
	err := f.Chmod(mode)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		// Without it the rename can survive a crash that the content does not.
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
