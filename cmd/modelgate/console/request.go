package console

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A Request is what a line says about one.
type Request struct {
	At       time.Time
	Status   int
	Outcome  string
	Took     time.Duration
	What     string // the model, or else the operation
	Provider string
	Key      string
	Attempts int
	Tokens   int64
	CostUSD  string
	Why      string // it was refused or failed
	ID       string
}

// Line returns a request as one line that fits the output.
func (t *Text) Line(r *Request) string {
	what := cmp.Or(r.What, "-")
	if r.Provider != "" && !strings.HasPrefix(r.What, r.Provider+"/") {
		what += " → " + r.Provider
	}
	var rest []string
	if r.Why != "" {
		rest = append(rest, r.Why)
	}
	if r.Attempts > 1 {
		rest = append(rest, strconv.Itoa(r.Attempts)+" attempts")
	}
	if r.Tokens > 0 {
		rest = append(rest, strconv.FormatInt(r.Tokens, 10)+" tokens")
	}
	if r.CostUSD != "" {
		rest = append(rest, "$"+r.CostUSD)
	}
	tone := ToneOf(strconv.Itoa(r.Status) + " " + r.Outcome)
	at := r.At.Local().Format(time.TimeOnly)
	if t.Width == 0 {
		at = r.At.UTC().Format(time.RFC3339)
	}
	head := fmt.Sprintf("%s %3d %6s", at, r.Status, took(r.Took))
	text := adminapi.OneLine(fmt.Sprintf(" %s %s %s", padded(what, 28), padded(cmp.Or(r.Key, "-"), 14),
		strings.Join(rest, ", ")))
	room := t.Width - len(head) - utf8.RuneCountInString(text)
	if id := "  " + r.ID; tone != Green && (t.Width == 0 || room >= len(id)) { // half an id is of no use
		text += id
	}
	if t.Width > 0 && room < 0 {
		text = string([]rune(text)[:max(0, t.Width-len(head)-1)]) + "…"
	}
	return t.Style(tone, head) + strings.TrimRight(text, " ")
}

// padded is a text in a column, which a longer text moves to the right.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// took returns a duration in at most six characters.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 1000*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return Span(d)
}

// Logged returns a request from the fields of its line in the access log (docs/observability.md).
func Logged(at time.Time, fields map[string]any) *Request {
	text := func(name string) string { s, _ := fields[name].(string); return s }
	r := &Request{At: at, Outcome: text("outcome"), What: cmp.Or(text("model"), text("operation"), text("path")),
		Provider: text("provider"), Key: cmp.Or(text("key_name"), text("key_id")), CostUSD: text("cost_usd"),
		Why: cmp.Or(text("error_code"), text("error_type")), ID: text("request_id")}
	r.Status, _ = fields["status"].(int)
	r.Attempts, _ = fields["attempts"].(int)
	r.Took, _ = fields["total"].(time.Duration)
	for _, name := range []string{"prompt_tokens", "completion_tokens"} {
		n, _ := fields[name].(int64)
		r.Tokens += n
	}
	if hint := text("key_hint"); r.Key == "" && hint != "" {
		r.Key = "unknown …" + hint
	}
	if r.Why == "" && r.Outcome != "finished" {
		r.Why = cmp.Or(text("details"), r.Outcome)
	}
	return r
}
