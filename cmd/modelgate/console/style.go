package console

import "strings"

// A Style is how a terminal shows a text.
type Style string

// Styles, as the parameters of ECMA-48's SGR.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Style returns a text in a style, where the output has colours.
func (t *Text) Style(s Style, text string) string {
	if !t.Color || s == Plain || text == "" {
		return text
	}
	return Styled(s, text)
}

// Styled returns a text in a style.
func Styled(s Style, text string) string { return "\x1b[" + string(s) + "m" + text + "\x1b[0m" }

// statesIn are the headers of columns whose cells say how something is.
var statesIn = []string{"STATE", "HEALTH", "RESULT", "SEVERITY"} //nolint:gochecknoglobals // nothing changes it

// ToneOf returns the style of a state, by its first word. The result of a request begins with its status.
func ToneOf(state string) Style {
	first, rest, _ := strings.Cut(state, " ")
	switch strings.TrimRight(first, ":,") {
	case "ok", "active", "completed", "succeeded", "served", "ready":
		if strings.HasSuffix(rest, "failed") { // a part of it
			return Yellow
		}
		return Green
	case "error", "failing", "failed", "firing", "critical", "unreachable", "exhausted":
		return Red
	case "degraded", "cooling", "disabled", "expired", "waits", "stale", "warning", "pending", "cancelled", "cancelling",
		"will":
		return Yellow
	}
	if len(first) == 3 && strings.Trim(first, "0123456789") == "" {
		return toneOfStatus(first, rest)
	}
	return Plain
}

// toneOfStatus returns the style of a result such as "200 truncated".
func toneOfStatus(status, outcome string) Style {
	switch {
	case status >= "500" || strings.HasPrefix(outcome, "failed") || strings.HasPrefix(outcome, "truncated") ||
		strings.HasPrefix(outcome, "interrupted"):
		return Red
	case status >= "400":
		return Yellow
	}
	return Green
}
