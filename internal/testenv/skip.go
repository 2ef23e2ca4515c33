package testenv

import (
	"os"
	"testing"
)

// All is the environment variable that makes every test run, and run whole, as make test-all sets it.
const All = "MODELGATE_ALL"

// Long skips a test that has no shorter form, unless every test runs.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv(All) == "" {
		t.Skip("takes long: make test-all runs it")
	}
}

// Missing skips a test for want of a tool, which the command installs. Continuous integration has run it: there it is
// a failure. Without a command nothing in the repository installs the tool.
func Missing(t testing.TB, tool, command string) {
	t.Helper()
	if command == "" {
		t.Skip("needs " + tool)
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("there is no %s: run %s", tool, command)
	}
	t.Skipf("needs %s: run %s", tool, command)
}

// Size returns how much of something a test does: as much as shows what it is about, or all where every test runs.
func Size(some, all int) int {
	if os.Getenv(All) == "" {
		return some
	}
	return all
}
