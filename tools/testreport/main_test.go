package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// failing are tests of which each fails in another way.
const failing = `package failing

import (
	"strings"
	"testing"
)

func TestGateway(t *testing.T) {
	t.Cleanup(func() { t.Logf("modelgate run printed:\n%s", strings.Repeat("a line of a log\n    a.go:1: as if logged\n", 300)) })
	t.Run("asserts", func(t *testing.T) {
		t.Errorf("\n\tError Trace:\ta_test.go:11\n\tError:      \tNot equal\n%s", strings.Repeat("\ta difference\n", 99))
		t.Log("not the last")
		t.Fatal("ends here")
	})
	t.Run("passes", func(t *testing.T) { t.Log("nothing of this") })
	t.Run("skips", func(t *testing.T) { t.Skip("needs a moon") })
}

func TestNever(t *testing.T) {
	t.Parallel()
}

func TestPanics(t *testing.T) {
	panic("at the disco")
}
`

func report(t *testing.T) string {
	t.Helper()
	code, folder := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(code, "go.mod"), "module failing\n")
	write(filepath.Join(code, "a", "a_test.go"), failing)
	write(filepath.Join(code, "b", "b_test.go"), "package b\n\nvar x = notThere\n")
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = code
	events, err := cmd.Output()
	if err == nil {
		t.Fatal("the tests did not fail")
	}
	setup := `{"Action":"output","Package":"setup","Output":"no disk\n"}` + "\n" + `{"Action":"fail","Package":"setup"}` +
		"\n"
	write(filepath.Join(folder, "unit.json"), string(events)+setup+`{"Action":"out`)
	write(filepath.Join(folder, "steps"), "vet 3 0\nunit 14 1\n")
	var out strings.Builder
	if err := run(folder, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWhatFailedIsSaidAtTheEndWithoutLogs(t *testing.T) {
	got := report(t)
	for _, want := range []string{
		"       3 s  vet\n      14 s  unit\n",
		"the slowest of 3 packages:\n", "  failing/a\n",
		"==== Skipped: 1\n       1    needs a moon\n",
		"==== Failed: 4\n",
		"FAIL: failing/a TestGateway/asserts\n    a_test.go:11: \n        \tError Trace:\ta_test.go:11\n        \tError:      \tNot equal\n",
		"        ...\n    a_test.go:13: ends here\n",
		"FAIL: failing/a TestPanics\npanic: at the disco",
		"FAIL: failing/b\nb/b_test.go:3:9: undefined: notThere\n",
		"FAIL: setup\nno disk\n",
		"FAIL: the step unit\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not there: %q", want)
		}
	}
	for _, not := range []string{"a line of a log", "as if logged", "nothing of this", "not the last",
		"FAIL: failing/a TestGateway\n", "TestNever\n", "the step vet\n"} {
		if _, failed, _ := strings.Cut(got, "==== Failed"); strings.Contains(failed, not) {
			t.Errorf("there: %q", not)
		}
	}
	if len(got) > 5000 || t.Failed() {
		t.Errorf("%d bytes:\n%s", len(got), got)
	}
}
