package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File returns the secret that the file holds, without the space around it. If there is no file, it is created with
// generate's secret, readable by its owner alone. Several processes that do so at once get the same secret. A file
// that others can read, and an empty one, are refused.
func File(path string, generate func() Value) (Value, error) {
	v, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	if err := create(path, generate()); err != nil && !errors.Is(err, fs.ErrExist) {
		return Value{}, fmt.Errorf("create secret file: %w", err)
	}
	return read(path)
}

func read(path string) (Value, error) {
	f, err := os.Open(path)
	if err != nil {
		return Value{}, fmt.Errorf("read secret file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Value{}, fmt.Errorf("read secret file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Value{}, fmt.Errorf("secret file %s is not a file: restore it from a copy", path)
	}
	// the group may read: a Secret of Kubernetes belongs to root, and to the group of the pod
	if info.Mode().Perm()&0o037 != 0 {
		return Value{}, fmt.Errorf("secret file %s can be read by others (mode %04o): run chmod 600 on it", path,
			info.Mode().Perm())
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return Value{}, fmt.Errorf("read secret file: %w", err)
	}
	v := New(strings.TrimSpace(string(data)))
	if v.IsZero() {
		return Value{}, fmt.Errorf("secret file %s is empty: restore it from a copy", path)
	}
	return v, nil
}

// create makes the file appear whole or not at all, and never replaces one.
func create(path string, v Value) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	_, err = tmp.WriteString(v.Reveal() + "\n")
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Link(tmp.Name(), path) // unlike Rename it fails if the file exists
}
