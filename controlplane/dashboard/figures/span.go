// Package figures draws what happened in the time that a page shows: the picker of the time, charts, and the use of an
// object.
//
// Times of a [Span] are its buckets' times. The last bucket may be under way, so its sum still grows.
package figures

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A Span is the time that a page shows. The address holds it as range=, from=, to= and compare=, and
// [SpanOf] reads it. To use it on a page:
//
//   - Put {{template "range" .Data.Span}} into the page's GET form, which has a button of its own.
//   - Ask for what is between From and To. Of sums, Width is the width of a bucket, and Buckets are where they begin.
//   - Append ?{{.Range}} or &{{.Range}} to links to other pages that have the picker. The navigation does so itself.
//   - Where Compare is set, ask for Previous() too. Its buckets are as many, so they are compared by their index.
type Span struct {
	// Range is one of the choices. Custom is given by From and To.
	Range string
	// From is where the first bucket begins and To where the last ends, UTC. The last may be under way.
	From, To time.Time
	// Width is a minute, five minutes, an hour or a day.
	Width   time.Duration
	Compare bool
	// Open is set if the last bucket is still under way.
	Open bool
	// Problem says what is wrong with the time that was asked for. The usual one is shown instead.
	Problem string
}

const (
	usualRange  = "24h"
	customRange = "custom"
	// minutesFor is how long sums by minute are known. The ledger keeps them for an hour more.
	minutesFor = 47 * time.Hour
	// longestSpan is how long sums are kept, at least as the ledger usually does.
	longestSpan = 400 * 24 * time.Hour
	// minuteForm is how fields of forms and addresses write a time, UTC.
	minuteForm = "2006-01-02T15:04"
)

// A preset is a range that ends now.
type preset struct {
	Value, Name   string
	length, width time.Duration
}

func presets() []preset {
	const day = 24 * time.Hour
	return []preset{
		{"15m", "last 15 minutes", 15 * time.Minute, time.Minute},
		{"1h", "last hour", time.Hour, time.Minute},
		{"6h", "last 6 hours", 6 * time.Hour, 5 * time.Minute},
		{"24h", "last 24 hours", day, time.Hour},
		{"7d", "last 7 days", 7 * day, time.Hour},
		{"30d", "last 30 days", 30 * day, day},
		{"90d", "last 90 days", 90 * day, day},
	}
}

// spanIn reads the query of an address. A range that is not there, or that is wrong, is the last 24 hours.
func spanIn(q url.Values, now time.Time) Span {
	s := Span{Range: q.Get("range"), Compare: q.Get("compare") != ""}
	if s.Range == "" && q.Get("from") != "" {
		s.Range = customRange
	}
	if s.Range == customRange {
		if s.Problem = s.custom(q.Get("from"), q.Get("to"), now); s.Problem == "" {
			s.Open = s.To.After(now)
			return s
		}
	}
	if !s.preset(now) {
		if s.Range != "" && s.Problem == "" {
			s.Problem = fmt.Sprintf("There is no time range %q.", s.Range)
		}
		s.Range = usualRange
		s.preset(now)
	}
	return s
}

// preset sets the times of a range that ends now, and reports whether there is such a range.
func (s *Span) preset(now time.Time) bool {
	for _, p := range presets() {
		if p.Value == s.Range {
			s.Width = p.width
			s.To = now.UTC().Truncate(p.width).Add(p.width)
			s.From = s.To.Add(-p.length)
			s.Open = true
			return true
		}
	}
	return false
}

// custom sets the times that somebody has chosen, or returns what is wrong with them. An end that has not come is now,
// and so is one that is missing.
func (s *Span) custom(from, to string, now time.Time) string {
	var ok bool
	if s.From, ok = instantOf(from, false); !ok {
		return "The begin of the time range must be a date, or a date and a time."
	}
	if s.To, ok = instantOf(to, true); !ok && to != "" {
		return "The end of the time range must be a date, or a date and a time."
	}
	if now = now.UTC(); !ok || s.To.After(now) {
		s.To = now
	}
	length := s.To.Sub(s.From)
	switch {
	case length <= 0:
		return "The time range must begin before it ends, and before now."
	case length > longestSpan:
		return fmt.Sprintf("The time range must not be longer than %d days.", int(longestSpan.Hours()/24))
	}
	s.Width = widthFor(length, now.Sub(s.From))
	s.From = s.From.Truncate(s.Width)
	if end := s.To.Truncate(s.Width); end.Before(s.To) {
		s.To = end.Add(s.Width)
	}
	return ""
}

// widthFor returns the width of the buckets of a range that began some time ago.
func widthFor(length, ago time.Duration) time.Duration {
	switch {
	case length > 8*24*time.Hour:
		return 24 * time.Hour
	case length > 12*time.Hour || ago > minutesFor:
		return time.Hour
	case length > 2*time.Hour:
		return 5 * time.Minute
	}
	return time.Minute
}

// instantOf reads a time of a form or an address. A date is its begin, or its end.
func instantOf(text string, end bool) (time.Time, bool) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{minuteForm, time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	t, err := time.Parse(time.DateOnly, text)
	if end && err == nil {
		t = t.AddDate(0, 0, 1)
	}
	return t, err == nil
}

// Previous returns the time before, of the same length, in buckets of the same width.
func (s Span) Previous() Span {
	s.From, s.To = s.From.Add(s.From.Sub(s.To)), s.From
	s.Range, s.Compare, s.Open = customRange, false, false
	return s
}

// Buckets returns where the buckets begin.
func (s Span) Buckets() []time.Time {
	var all []time.Time
	for at := s.From; at.Before(s.To); at = at.Add(s.Width) {
		all = append(all, at)
	}
	return all
}

// Unit names the width of a bucket.
func (s Span) Unit() string {
	switch s.Width {
	case time.Minute:
		return "minute"
	case 5 * time.Minute:
		return "5 minutes"
	case time.Hour:
		return "hour"
	}
	return "day"
}

// Name says which time it is.
func (s Span) Name() string {
	for _, c := range s.Choices() {
		if c.Value == s.Range && s.Range != customRange {
			return c.Name
		}
	}
	return s.FromField() + " to " + s.ToField() + " UTC"
}

// Choices returns the choices of the picker.
func (s Span) Choices() []forms.Choice {
	var all []forms.Choice
	for _, p := range presets() {
		all = append(all, forms.Choice{Value: p.Value, Name: p.Name})
	}
	return append(all, forms.Choice{Value: customRange, Name: "custom"})
}

// FromField returns what a field of a form holds of the begin.
func (s Span) FromField() string { return s.From.Format(minuteForm) }

// ToField returns what a field of a form holds of the end.
func (s Span) ToField() string { return s.To.Format(minuteForm) }

// Query returns the part of an address that leads to the same time on another page.
func (s Span) Query() template.URL {
	q := url.Values{"range": {s.Range}}
	if s.Range == customRange {
		q.Set("from", s.FromField())
		q.Set("to", s.ToField())
	}
	if s.Compare {
		q.Set("compare", "true")
	}
	return template.URL(q.Encode()) //nolint:gosec // it is encoded
}

// SpanOf returns the time that a page is asked for. From then on links of the page and of the navigation lead to the
// same time.
func SpanOf(v *page.Visit, r *http.Request) Span {
	s := spanIn(r.URL.Query(), v.Now())
	v.Range = s.Query()
	return s
}
