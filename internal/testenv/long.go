package testenv

import (
	"os"
	"testing"
)

// All is the environment variable with which every test runs, and each whole, as make test-all sets it.
const All = "MODELGATE_ALL"

// Long skips a test that has no shorter form, unless every test runs.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv(All) == "" {
		t.Skip("takes long: make test-all runs it")
	}
}

// Size returns how much of something a test does: as much as shows what it is about, or all where every test runs.
func Size(some, all int) int {
	if os.Getenv(All) == "" {
		return some
	}
	return all
}
