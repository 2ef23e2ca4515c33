// Package testenv finds what tests need from the machine: the real Envoy.
//
// A case that needs Envoy skips if there is none, so that go test ./... passes on a fresh
// clone. make test installs one and names it in $MODELGATE_ENVOY, and then its absence is a failure.
package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modelgate/modelgate/envoy/process"
)

// Envoy returns the path of the Envoy that tests run: $MODELGATE_ENVOY, bin/envoy in the repository, or one on the
// PATH. Without one the test is skipped, unless the variable is set.
func Envoy(t testing.TB) string {
	t.Helper()
	inRepository := filepath.Join(Root(t), "bin", "envoy")
	if os.Getenv(process.EnvBinary) != "" {
		inRepository = ""
	} else if _, err := os.Stat(inRepository); err != nil {
		inRepository = ""
	}
	path, err := process.Find(t.Context(), inRepository)
	if err != nil && os.Getenv(process.EnvBinary) != "" {
		t.Fatalf("the Envoy of $%s: %v", process.EnvBinary, err)
	}
	if err != nil {
		t.Skip("needs Envoy: run make envoy, or name a binary in $" + process.EnvBinary)
	}
	return path
}

// Root returns the root folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding the repository: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("the test does not run in a clone of the repository")
		}
		dir = parent
	}
}
