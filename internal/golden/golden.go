// Package golden compares the output of a test with a reviewed and committed file.
//
// The flag -update makes every test pass, so review the diff of the files after it.
package golden

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is the flag -update, which every test binary that imports this package has.
var update = flag.Bool("update", false, "rewrite the golden files instead of comparing with them")

// Update reports whether the golden files are to be rewritten, for tests that keep several results in one file.
func Update() bool { return *update }

// Bytes fails the test where the file at path, relative to the test's package, does not hold exactly got. With -update
// it writes the file, and its folder, instead.
func Bytes(t testing.TB, path string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err == nil && bytes.Equal(want, got) {
		return
	}
	if Update() {
		write(t, path, got)
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("%s is missing; run the test with -update to write it:\n%s", path, got)
	case err != nil:
		t.Errorf("reading the golden file: %v", err)
	default:
		t.Errorf("%s differs (-want +got); run the test with -update where this is right:\n%s", path,
			cmp.Diff(string(want), string(got)))
	}
}

func write(t testing.TB, path string, got []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("making the folder of a golden file: %v", err)
	}
	if err := os.WriteFile(path, got, 0o644); err != nil {
		t.Fatalf("writing a golden file: %v", err)
	}
}
