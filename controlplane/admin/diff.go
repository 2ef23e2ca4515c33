package admin

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// contextLines stand around every change of a diff.
const contextLines = 3

// diffObjects returns a unified diff of two objects as YAML, of which one may be nil. Both are redacted.
func diffObjects(old, shown configv1.Object) (string, error) {
	before, from, err := yamlOf(old, "stored ")
	if err != nil {
		return "", err
	}
	after, to, err := yamlOf(shown, "new ")
	if err != nil {
		return "", err
	}
	return unified(from, to, splitLines(before), splitLines(after)), nil
}

func yamlOf(o configv1.Object, which string) (text, title string, err error) {
	if o == nil {
		return "", "/dev/null", nil
	}
	y, err := configv1.MarshalYAML(redacted(o))
	return string(y), which + configv1.Label(o), err
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// A diffLine is a line with what happens to it: ' ' stays, '-' goes, '+' comes.
type diffLine struct {
	op   byte
	text string
}

// maxTable bounds the memory of a comparison. Objects are short; two that are not, and differ all over, are shown whole.
const maxTable = 4 << 20

// compare returns a shortest way from a to b.
func compare(a, b []string) []diffLine {
	var head, tail []diffLine
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, diffLine{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, diffLine{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, compareMiddle(a, b), tail)
}

// compareMiddle walks along the table of the lengths of longest common subsequences.
func compareMiddle(a, b []string) []diffLine {
	if len(a)*len(b) > maxTable {
		return append(marked('-', a), marked('+', b)...)
	}
	common := make([][]int, len(a)+1)
	common[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []diffLine
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			lines = append(lines, diffLine{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			lines = append(lines, diffLine{'-', a[i]})
			i++
		default:
			lines = append(lines, diffLine{'+', b[j]})
			j++
		}
	}
	return slices.Concat(lines, marked('-', a[i:]), marked('+', b[j:]))
}

func marked(op byte, texts []string) []diffLine {
	var lines []diffLine
	for _, text := range texts {
		lines = append(lines, diffLine{op, text})
	}
	return lines
}

// unified renders a diff, or nothing where there is no difference.
func unified(from, to string, a, b []string) string {
	lines := compare(a, b)
	var out strings.Builder
	oldLine, newLine := 1, 1
	for at := 0; at < len(lines); {
		start, end := nextHunk(lines, at)
		if start == end {
			break
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
		}
		// Everything between the last hunk and this one stays, on both sides.
		oldLine, newLine = oldLine+start-at, newLine+start-at
		oldCount, newCount := count(lines[start:end])
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(oldLine, oldCount), span(newLine, newCount))
		for _, l := range lines[start:end] {
			out.WriteByte(l.op)
			out.WriteString(l.text)
			out.WriteByte('\n')
		}
		oldLine, newLine, at = oldLine+oldCount, newLine+newCount, end
	}
	return out.String()
}

// nextHunk returns the lines from the next change on, up to where more than twice the context stays.
func nextHunk(lines []diffLine, from int) (start, end int) {
	first, last := -1, -1
	for i := from; i < len(lines); i++ {
		if lines[i].op == ' ' {
			continue
		}
		if last >= 0 && i-last > 2*contextLines {
			break
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 {
		return from, from
	}
	return max(from, first-contextLines), min(len(lines), last+1+contextLines)
}

func count(lines []diffLine) (before, after int) {
	for _, l := range lines {
		if l.op != '+' {
			before++
		}
		if l.op != '-' {
			after++
		}
	}
	return before, after
}

func span(line, count int) string {
	if count == 0 {
		line-- // as diff -u does: the line before
	}
	return fmt.Sprintf("%d,%d", line, count)
}
