// Testreport prints what a run of the tests comes to, from the events that go test has written: where the time went,
// which cases were skipped and why, and what failed, with the lines of its assertions alone.
//
//	testreport FOLDER    FOLDER holds a .json of each step, and steps: a line "NAME SECONDS STATUS" of each
//
// What failed comes last and is cut, because continuous integration shows the end of a run only.
// What processes printed is in the files, and further up.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(folder string, out io.Writer) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	r := newResults()
	for _, path := range paths {
		if err := read(path, r.add); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	steps, err := os.ReadFile(filepath.Join(folder, "steps"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	r.print(out, string(steps))
	return nil
}

// An event is one of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of events of a build
	FailedBuild string
	Test        string
	Elapsed     float64
	Output      string
}

// read gives the events of a file. A line that is none, as of a run that was killed while it wrote, is left out.
func read(path string, add func(event)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			add(e)
		}
	}
	return lines.Err()
}
