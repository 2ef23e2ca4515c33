package main

import (
	"regexp"
	"slices"
	"strings"
)

const (
	maxLines   = 16  // of one assertion
	maxColumns = 200 // of one line
	maxBlocks  = 3   // of one test
)

var (
	// logged is the first line of what a test has logged or failed with.
	logged = regexp.MustCompile(`^    [\w.-]+\.go:\d+:( |$)`)
	// fatal is the first line of what ends a process, of the race detector's or of the compiler's.
	fatal = regexp.MustCompile(`^(panic: |fatal error: |WARNING: DATA RACE|SIG[A-Z]+: |\S+\.go:\d+:\d+: )`)
	// mark is a line of go test's own.
	mark = regexp.MustCompile(`^\s*(=== |--- |FAIL|PASS|ok |exit status|coverage:)`)
)

// A block is what was logged at once, or a panic.
type block []string

// assertions returns the lines that say why a test failed: its assertions and the last that it logged, which may be
// one too, without what processes printed.
func assertions(output []string) []string {
	all := blocks(output)
	var lines []string
	shown := 0
	for i, b := range all {
		if shown < maxBlocks && b.asserts() || i == len(all)-1 {
			lines = append(lines, b.cut()...)
			shown++
		}
	}
	return lines
}

// last returns the end of an output in which nothing was asserted.
func last(output []string) []string {
	lines := slices.DeleteFunc(slices.Clone(output), mark.MatchString)
	return block(lines[max(0, len(lines)-maxBlocks):]).cut()
}

// reason returns why a test was skipped.
func reason(output []string) string {
	all := blocks(output)
	if len(all) == 0 {
		return "it does not say why"
	}
	_, why, _ := strings.Cut(all[len(all)-1][0], ": ")
	return strings.TrimSpace(why)
}

// blocks cuts an output. What the harness shows of processes, "... printed:", is left out, and so is what a test wrote
// past its log.
func blocks(output []string) []block {
	var all []block
	const (
		outside = iota
		inLog
		inFatal
	)
	at := outside
	for line := range strings.Lines(strings.Join(output, "")) {
		switch {
		case fatal.MatchString(line):
			all = append(all, block{line})
			at = inFatal
		case logged.MatchString(line):
			if at = outside; !strings.HasSuffix(strings.TrimSpace(line), " printed:") {
				all = append(all, block{line})
				at = inLog
			}
		case mark.MatchString(line), at == inLog && !strings.HasPrefix(line, "        "):
			at = outside
		case at != outside:
			all[len(all)-1] = append(all[len(all)-1], line)
		}
	}
	return all
}

// asserts reports whether the block is an assertion's or a panic, and not only a log.
func (b block) asserts() bool {
	return fatal.MatchString(b[0]) || slices.ContainsFunc(b,
		func(line string) bool { return strings.Contains(line, "Error Trace:") })
}

// cut keeps the beginning of a block and of each of its lines. The difference of two values is cut first.
func (b block) cut() []string {
	var lines []string
	for _, line := range b {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if runes := []rune(strings.TrimRight(line, "\n")); len(runes) > maxColumns {
			line = string(runes[:maxColumns]) + " ...\n"
		}
		lines = append(lines, line)
		if len(lines) == maxLines {
			return append(lines, "        ...\n")
		}
	}
	return lines
}
