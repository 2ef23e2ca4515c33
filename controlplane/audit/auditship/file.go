package auditship

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/semaphore"
)

// file appends a batch to a file as lines of JSON, and is done once they are on the disk. A part of a batch it takes
// back.
//
// A disk can hang, such as one of a network. It is waited for no longer than ctx, and the file is then left alone
// until it does not hang any more.
func (s *sender) file(ctx context.Context, path string, b batch) result {
	known, _ := s.files.LoadOrStore(path, semaphore.NewWeighted(1))
	turn := known.(*semaphore.Weighted)
	hangs := result{says: "the file cannot be written: the disk does not answer"}
	if turn.Acquire(ctx, 1) != nil {
		return hangs
	}
	done := make(chan error, 1)
	go func() {
		defer turn.Release(1)
		done <- s.appendTo(path, b)
	}()
	var err error
	select {
	case <-ctx.Done():
		return hangs
	case err = <-done:
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err // without the path, which is in the configuration
	}
	if err != nil {
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
