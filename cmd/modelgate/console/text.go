package console

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usualWidth is the width of a terminal that does not report one.
const usualWidth = 120

// A Text is what a command prints for a person.
type Text struct {
	strings.Builder
	// Width is how many characters fit into a line. 0: any number, because no terminal shows it.
	Width int
	// Color reports whether the output shows colours.
	Color bool
	// Names returns a text with the names of keys and tokens in place of their ids. nil: they are not known.
	Names func(string) string
	// Now is what relative times relate to.
	Now time.Time
}

// For returns an empty text for an output.
func For(w io.Writer) *Text {
	t := &Text{Now: time.Now()}
	if size, ok := sizeOf(w); ok {
		t.Width, t.Color = int(size.Col), Colored(w)
		if t.Width == 0 {
			t.Width = usualWidth
		}
	}
	return t
}

// IsTerminal reports whether somebody reads along.
func IsTerminal(w any) bool {
	_, ok := sizeOf(w)
	return ok
}

// Colored reports whether an output is a terminal that shows colours, and whose user wants them:
// https://no-color.org.
func Colored(w any) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// sizeOf returns the size of a terminal. Other character devices, such as /dev/null, have none.
func sizeOf(w any) (*unix.Winsize, bool) {
	if s, ok := w.(*screen); ok {
		w = s.of
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ) //nolint:gosec // a descriptor is a small number
	return size, err == nil
}

// Printf adds a formatted text.
func (t *Text) Printf(format string, a ...any) { fmt.Fprintf(&t.Builder, format, a...) }

// Println adds a line.
func (t *Text) Println(a ...any) { fmt.Fprintln(&t.Builder, a...) }

// Named returns a text with names in place of ids.
func (t *Text) Named(text string) string {
	if t.Names == nil {
		return text
	}
	return t.Names(text)
}

// Time returns a time as a person reads it: on a terminal relative to now, else in RFC 3339. The zero time is empty.
func (t *Text) Time(at time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case t.Width == 0:
		return at.UTC().Format(time.RFC3339)
	}
	return ago(t.Now.Sub(at), at)
}

// TimeOr is Time of a time that there may not be.
func (t *Text) TimeOr(at *time.Time, otherwise string) string {
	if at == nil {
		return otherwise
	}
	return t.Time(*at)
}

// longAgo is how far a time is away that is shown as a date.
const longAgo = 60 * 24 * time.Hour

// ago returns how long ago a time was, or in how long it will be.
func ago(d time.Duration, at time.Time) string {
	switch {
	case d >= longAgo || d <= -longAgo:
		return at.UTC().Format(time.DateOnly)
	case d < 0:
		return "in " + Span(-d)
	}
	return Span(d) + " ago"
}

// Span returns a duration in its largest unit, such as 3h.
func Span(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	case d >= time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d >= time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}

// Echo has a terminal show what is typed, or not, as POSIX's stty does it on every system.
func Echo(terminal *os.File, on bool) error {
	arg := "-echo"
	if on {
		arg = "echo"
	}
	cmd := exec.Command("stty", arg)
	cmd.Stdin = terminal
	return cmd.Run()
}
