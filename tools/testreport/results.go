package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	shownPackages = 12
	shownTests    = 15
	shownFailures = 25
)

// A name names a test. A package's own is without a test.
type name struct{ pkg, test string }

func (n name) String() string {
	return strings.TrimSpace(strings.TrimPrefix(n.pkg, "github.com/modelgate/modelgate/") + " " + n.test)
}

// A result is what became of a test or a package.
type result struct {
	action  string
	seconds float64
	output  []string // until it has passed
}

type results struct {
	of     map[name]*result
	builds map[string][]string // what the compiler said
}

func newResults() *results {
	return &results{map[name]*result{}, map[string][]string{}}
}

func (r *results) add(e event) {
	n := name{e.Package, e.Test}
	if e.Package == "" {
		if e.Action == "build-output" {
			r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		}
		return
	}
	got := r.of[n]
	if got == nil {
		got = &result{}
		r.of[n] = got
	}
	switch e.Action {
	case "output":
		got.output = append(got.output, e.Output)
	case "pass", "bench":
		got.action, got.seconds, got.output = e.Action, e.Elapsed, nil
	case "fail", "skip":
		got.action, got.seconds = e.Action, e.Elapsed
		if e.FailedBuild != "" {
			got.output = r.builds[e.FailedBuild]
		}
	}
}

func (r *results) print(out io.Writer, steps string) {
	_, _ = fmt.Fprintln(out, "\n==== Where the time went")
	for line := range strings.Lines(steps) {
		var step, seconds, status string
		_, _ = fmt.Sscan(line, &step, &seconds, &status)
		_, _ = fmt.Fprintf(out, "%8s s  %s\n", seconds, step)
	}
	isPackage := func(n name) bool { return n.test == "" }
	r.slowest(out, "packages", shownPackages, isPackage)
	r.slowest(out, "tests", shownTests, func(n name) bool { return n.test != "" && !strings.Contains(n.test, "/") })
	r.printSkipped(out)
	r.printFailed(out)
	for line := range strings.Lines(steps) {
		if f := strings.Fields(line); len(f) == 3 && f[2] != "0" {
			_, _ = fmt.Fprintf(out, "FAIL: the step %s\n", f[0])
		}
	}
}

func (r *results) slowest(out io.Writer, what string, shown int, which func(name) bool) {
	all := slices.DeleteFunc(slices.Collect(maps.Keys(r.of)), func(n name) bool { return !which(n) })
	slices.SortFunc(all, func(a, b name) int {
		return cmp.Or(cmp.Compare(r.of[b].seconds, r.of[a].seconds), cmp.Compare(a.String(), b.String()))
	})
	_, _ = fmt.Fprintf(out, "the slowest of %d %s:\n", len(all), what)
	for _, n := range all[:min(shown, len(all))] {
		_, _ = fmt.Fprintf(out, "%8.1f s  %s\n", r.of[n].seconds, n)
	}
}

// printSkipped counts by reason the tests that were skipped.
func (r *results) printSkipped(out io.Writer) {
	reasons, n := map[string]int{}, 0
	for of, got := range r.of {
		if got.action == "skip" && of.test != "" {
			reasons[reason(got.output)]++
			n++
		}
	}
	_, _ = fmt.Fprintf(out, "==== Skipped: %d\n", n)
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		_, _ = fmt.Fprintf(out, "%8d    %s\n", reasons[why], why)
	}
}

// printFailed lists the tests that failed, each with its assertions. One that failed by its subtests alone is not
// listed. One that never ended, because its process did, is listed for what it said.
func (r *results) printFailed(out io.Writer) {
	var failed []name
	for n, got := range r.of {
		if got.action == "fail" || got.action == "" {
			failed = append(failed, n)
		}
	}
	slices.SortFunc(failed, func(a, b name) int { return cmp.Compare(a.String(), b.String()) })
	var listed []string
	for _, n := range failed {
		said := assertions(r.of[n].output)
		never := r.of[n].action == "" && n.test != ""
		if len(said) == 0 && (never || slices.ContainsFunc(failed, func(o name) bool { return o.under(n) })) {
			continue
		}
		if len(said) == 0 {
			said = last(r.of[n].output)
		}
		listed = append(listed, "FAIL: "+n.String()+"\n"+strings.Join(said, ""))
	}
	_, _ = fmt.Fprintf(out, "==== Failed: %d\n", len(listed))
	for _, text := range listed[:min(shownFailures, len(listed))] {
		_, _ = io.WriteString(out, text)
	}
	if more := len(listed) - shownFailures; more > 0 {
		_, _ = fmt.Fprintf(out, "and %d more\n", more)
	}
}

// under reports whether the test is part of another test or of a package.
func (n name) under(whole name) bool {
	return n.pkg == whole.pkg && n != whole && (whole.test == "" || strings.HasPrefix(n.test, whole.test+"/"))
}
