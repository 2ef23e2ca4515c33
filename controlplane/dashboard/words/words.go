// Package words writes figures, times and differences as the pages of the dashboard show them.
//
// What it returns is text, which the templates escape. Only [Time] returns HTML.
package words

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Number writes a number with its thousands apart.
func Number(v any) string {
	s := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Short writes a number in about four characters.
func Short(n int64) string {
	f := float64(n)
	for _, unit := range []string{"", "k", "M", "G"} {
		if math.Abs(f) < 999.5 || unit == "G" {
			if unit == "" {
				return strconv.FormatInt(n, 10)
			}
			return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + unit
		}
		f /= 1000
	}
	return ""
}

// Dollars writes an amount that is a decimal: with cents, and what is less than a cent with four digits that count.
func Dollars(amount string) string {
	f, err := strconv.ParseFloat(amount, 64)
	switch {
	case amount == "" || err != nil:
		return "$0.00"
	case f != 0 && math.Abs(f) < 0.0001:
		return "<$0.0001"
	case f != 0 && math.Abs(f) < 1:
		return "$" + strconv.FormatFloat(f, 'f', 4, 64)
	}
	whole, cents, _ := strings.Cut(strconv.FormatFloat(f, 'f', 2, 64), ".")
	return "$" + Number(whole) + "." + cents
}

// Column returns what writes the amounts of a column, which are decimals, with one precision: with cents if all are
// none or at least a dollar, else with four digits.
func Column(amounts ...string) func(string) string {
	for _, amount := range amounts {
		if f, err := strconv.ParseFloat(amount, 64); err == nil && f != 0 && math.Abs(f) < 1 {
			return fine
		}
	}
	return Dollars
}

// fine writes an amount with four digits after the point.
func fine(amount string) string {
	f, _ := strconv.ParseFloat(amount, 64) // empty: nothing
	if f != 0 && math.Abs(f) < 0.0001 {
		return "<$0.0001"
	}
	whole, part, _ := strings.Cut(strconv.FormatFloat(f, 'f', 4, 64), ".")
	return "$" + Number(whole) + "." + part
}

// Exact returns what writes the amounts of a column with all of their digits, as many for each and at least cents.
func Exact(amounts ...string) func(string) string {
	most := 2
	for _, amount := range amounts {
		_, part, _ := strings.Cut(amount, ".")
		most = max(most, len(part))
	}
	return func(amount string) string {
		if amount == "" {
			return ""
		}
		whole, part, _ := strings.Cut(amount, ".")
		return "$" + Number(whole) + "." + part + strings.Repeat("0", most-len(part))
	}
}

// Price writes a price, which is a decimal, with all of its digits and at least cents.
func Price(price string) string {
	if price == "" {
		return ""
	}
	whole, part, _ := strings.Cut(price, ".")
	for len(part) < 2 {
		part += "0"
	}
	return "$" + whole + "." + part
}

// Milliseconds writes a duration in the unit that suits it.
func Milliseconds(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " ms"
	case n < 60_000:
		return strconv.FormatFloat(float64(n)/1000, 'f', 2, 64) + " s"
	}
	return time.Duration(n * int64(time.Millisecond)).Round(time.Second).String()
}

// Time writes a time, which app.js then shows in the reader's own zone.
func Time(v any) template.HTML {
	var at time.Time
	switch v := v.(type) {
	case time.Time:
		at = v
	case *time.Time:
		if v != nil {
			at = *v
		}
	case int64:
		if v != 0 {
			at = time.Unix(v, 0)
		}
	case interface{ AsTime() time.Time }:
		at = v.AsTime()
	}
	if at.IsZero() || at.Unix() == 0 {
		return `<span class="faint">never</span>`
	}
	at = at.UTC()
	// Nothing but a time is in it.
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339) + `">` + at.Format("2006-01-02 15:04:05") +
		` UTC</time>`)
}

// Percent returns how much of a whole a part is, rounded. What is not the whole is less than 100, and what is not
// nothing more than 0.
func Percent(part, whole any) int {
	p, errPart := strconv.ParseFloat(fmt.Sprint(part), 64)
	w, errWhole := strconv.ParseFloat(fmt.Sprint(whole), 64)
	if errPart != nil || errWhole != nil || w <= 0 {
		return 0
	}
	switch percent := int(math.Round(100 * p / w)); {
	case p < w:
		return max(min(percent, 99), min(int(math.Ceil(p)), 1))
	default:
		return percent
	}
}

// Change says by how much a figure differs from the previous period's.
func Change(before, now any) string {
	b, errBefore := strconv.ParseFloat(fmt.Sprint(before), 64)
	n, errNow := strconv.ParseFloat(fmt.Sprint(now), 64)
	switch {
	case errBefore != nil || errNow != nil:
		return ""
	case b == n:
		return "as in the previous period"
	case b == 0:
		return "none in the previous period"
	}
	return fmt.Sprintf("%+.0f %% to the previous period", 100*(n-b)/b)
}

// A DiffLine is a line of a unified diff. Kind is add, del, hunk, or empty.
type DiffLine struct{ Kind, Text string }

// Diff returns the lines of a unified diff.
func Diff(diff string) []DiffLine {
	var lines []DiffLine
	for line := range strings.SplitSeq(strings.TrimRight(diff, "\n"), "\n") {
		kind := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "@@"):
			kind = "hunk"
		case strings.HasPrefix(line, "+"):
			kind = "add"
		case strings.HasPrefix(line, "-"):
			kind = "del"
		}
		lines = append(lines, DiffLine{kind, line})
	}
	return lines
}

// Level names how near a percentage is to the whole.
func Level(percent int) string {
	switch {
	case percent >= 95:
		return "bad"
	case percent >= 80:
		return "warn"
	}
	return "fine"
}
