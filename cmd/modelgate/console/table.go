package console

import (
	"slices"
	"strings"
	"unicode/utf8"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const (
	gap = 2 // spaces between columns
	// unbroken is the length of an id, which stays in one piece so that it can be copied. Other words are broken if the
	// rows do not fit otherwise, but into no smaller pieces than these.
	unbroken, piece = 36, 10
)

// Table adds rows under a header, or the sentence without rows. An empty cell is a dash, and one of several lines
// becomes one line. On a terminal that is too narrow, the widest columns are wrapped.
func (t *Text) Table(none string, header []string, rows [][]string) {
	if len(rows) == 0 {
		t.WriteString(none + "\n")
		return
	}
	lines := [][]string{header}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = adminapi.OneLine(cell); cell == "" {
				cells[i] = "-"
			}
		}
		lines = append(lines, cells)
	}
	widths := t.fit(lines)
	for n, cells := range lines {
		t.row(n == 0, header, cells, widths)
	}
}

// Section adds a table after an empty line, or nothing without rows.
func (t *Text) Section(header []string, rows [][]string) {
	if len(rows) > 0 {
		t.WriteByte('\n')
		t.Table("", header, rows)
	}
}

// Facts adds a line for each fact that is known: its name and what it is.
func (t *Text) Facts(facts [][2]string) {
	for _, fact := range facts {
		if fact[1] != "" {
			t.Printf("%-15s%s\n", fact[0]+":", adminapi.OneLine(fact[1]))
		}
	}
}

// fit returns the widths of the columns. Of those that do not fit, the widest become narrower first.
func (t *Text) fit(lines [][]string) []int {
	n := len(lines[0])
	widths, words, pieces := make([]int, n), make([]int, n), make([]int, n)
	for i := range n {
		for _, cells := range lines {
			whole := utf8.RuneCountInString(cells[i])
			widths[i] = max(widths[i], whole)
			words[i], pieces[i] = max(words[i], min(whole, piece)), max(pieces[i], min(whole, piece))
			for word := range strings.FieldsSeq(cells[i]) {
				length := min(utf8.RuneCountInString(word), unbroken)
				words[i] = max(words[i], length)
				if length == unbroken {
					pieces[i] = length
				}
			}
		}
	}
	t.narrow(widths, words)
	t.narrow(widths, pieces)
	return widths
}

// narrow takes from the widest columns what does not fit, as far as the least widths.
func (t *Text) narrow(widths, least []int) {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; t.Width > 0 && total > t.Width; total-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return // the terminal wraps the lines
		}
		widths[widest]--
	}
}

// row adds the lines of one row.
func (t *Text) row(head bool, header, cells []string, widths []int) {
	wrapped, height := make([][]string, len(cells)), 1
	for i, cell := range cells {
		wrapped[i] = wrap(cell, widths[i])
		height = max(height, len(wrapped[i]))
	}
	for line := range height {
		var b strings.Builder
		for i := range cells {
			var text string
			if line < len(wrapped[i]) {
				text = wrapped[i][line]
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap)
			switch {
			case head:
				text = t.Style(Bold, text)
			case slices.Contains(statesIn, header[i]):
				text = t.Style(ToneOf(cells[i]), text)
			}
			b.WriteString(text + pad)
		}
		t.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	}
}

// wrap cuts a text into lines: between words, or else within a word, after a sign if it can.
func wrap(text string, width int) []string {
	var lines []string
	runes := []rune(text)
	for len(runes) > width {
		end, next := width, width
		if i := lastOf(runes[:width+1], " "); i > 0 {
			end, next = i, i+1
		} else if i := lastOf(runes[:width], "/_-,.:"); i > 0 {
			end, next = i+1, i+1
		}
		lines = append(lines, string(runes[:end]))
		runes = runes[next:]
	}
	return append(lines, string(runes))
}

func lastOf(runes []rune, signs string) int {
	for i, r := range slices.Backward(runes) {
		if strings.ContainsRune(signs, r) {
			return i
		}
	}
	return -1
}
