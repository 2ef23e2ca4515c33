package auditship

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// file appends a batch to a file as lines of JSON, and is done once they are on the disk. A part of a batch it takes
// back.
func (s *sender) file(path string, b batch) result {
	s.files.Lock()
	defer s.files.Unlock()
	if err := s.appendTo(path, b); err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err // without the path, which is in the configuration
		}
		return result{says: "the file cannot be written: " + err.Error()}
	}
	return result{}
}

var errNoFile = errors.New("it is not a regular file")

func (s *sender) appendTo(path string, b batch) error {
	info, err := os.Stat(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	if !fresh && !info.Mode().IsRegular() { // to open a pipe would wait
		return errNoFile
	}
	// Whoever rotates it may do so between two batches.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = s.appendLines(f, b)
	if err == nil && fresh {
		err = syncFolder(filepath.Dir(path))
	}
	return errors.Join(err, f.Close())
}

func (s *sender) appendLines(f *os.File, b batch) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' { // of somebody who died while writing
			lines.WriteByte('\n')
		}
	}
	for _, i := range b.items {
		lines.Write(i.json)
		lines.WriteByte('\n')
	}
	if _, err := s.write(f, lines.Bytes()); err != nil {
		_ = f.Truncate(info.Size()) // else the half line stays, and the next batch begins on a new one
		return err
	}
	return f.Sync()
}

// syncFolder has a new name in a folder survive a crash.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
