package console_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/cmd/modelgate/console/pty"
)

func TestATerminalIsWhatHasASize(t *testing.T) {
	terminal, _ := pty.Open(t, 132)
	require.True(t, console.IsTerminal(terminal))
	require.Equal(t, 132, console.For(terminal).Width)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	require.False(t, console.IsTerminal(null), "a device that nobody reads")
	require.False(t, console.IsTerminal(&bytes.Buffer{}))
	require.Zero(t, console.For(null).Width)
}

func TestATerminalHidesAPassword(t *testing.T) {
	terminal, _ := pty.Open(t, 80)
	echoes := func() bool {
		mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS) //nolint:gosec // a descriptor is a small number
		require.NoError(t, err)
		return mode.Lflag&unix.ECHO != 0
	}
	require.NoError(t, console.Echo(terminal, false))
	require.False(t, echoes())
	require.NoError(t, console.Echo(terminal, true))
	require.True(t, echoes())
}

func TestColoursAreForATerminalWhoseUserWantsThem(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	terminal, _ := pty.Open(t, 80)
	require.True(t, console.For(terminal).Color)
	require.False(t, console.For(&bytes.Buffer{}).Color)
	t.Setenv("NO_COLOR", "1")
	require.False(t, console.For(terminal).Color)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	require.False(t, console.For(terminal).Color)
}

func TestTimesAreRelativeOnATerminal(t *testing.T) {
	terminal, _ := pty.Open(t, 80)
	text := console.For(terminal)
	for d, want := range map[time.Duration]string{
		0: "0s ago", 59 * time.Second: "59s ago", 90 * time.Second: "1m ago", 25 * time.Hour: "1d ago",
		-3 * time.Hour: "in 3h",
	} {
		require.Equal(t, want, text.Time(text.Now.Add(-d)))
	}
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, "2020-01-02", text.Time(at))
	require.Equal(t, "2020-01-02T03:04:05Z", console.For(&bytes.Buffer{}).Time(at))
	require.Empty(t, text.Time(time.Time{}))
	require.Equal(t, "never", text.TimeOr(nil, "never"))
}

func TestATableFitsTheTerminal(t *testing.T) {
	id := "0d3f1f3e-6c1b-4d6f-9a51-0f6b2d1b7c11"
	header := []string{"NAME", "ID", "STATE", "MESSAGE"}
	rows := [][]string{{"one", id, "error: of it", strings.Repeat("word ", 60)}, {"two", id, "active", ""}}
	for _, width := range []int{80, 120} {
		text := &console.Text{Width: width}
		text.Table("Nothing.", header, rows)
		require.Equal(t, 2, strings.Count(text.String(), id), "an id stays in one piece")
		require.Equal(t, 60, strings.Count(text.String(), "word"), "nothing is left out")
		for line := range strings.Lines(text.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(line)-1, width, line)
		}
	}
	whole := &console.Text{}
	whole.Table("Nothing.", header, rows)
	require.Equal(t, 3, strings.Count(whole.String(), "\n"), "what is no terminal gets a line a row")
	empty := &console.Text{}
	empty.Table("Nothing.", header, nil)
	require.Equal(t, "Nothing.\n", empty.String())
}

func TestStatesHaveColours(t *testing.T) {
	text := &console.Text{Width: 80, Color: true}
	text.Table("", []string{"NAME", "STATE"}, [][]string{{"error", "error: gone"}})
	require.Equal(t, "\x1b[1mNAME\x1b[0m   \x1b[1mSTATE\x1b[0m\nerror  \x1b[31merror: gone\x1b[0m\n",
		text.String(), "a name is no state")
	for state, want := range map[string]console.Style{
		"ok": console.Green, "200 completed": console.Green, "200 truncated": console.Red, "503 failed": console.Red,
		"429 rejected": console.Yellow, "disabled": console.Yellow, "unused": console.Plain, "": console.Plain,
	} {
		require.Equal(t, want, console.ToneOf(state), fmt.Sprintf("%q", state))
	}
}

func TestARequestIsALine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	id := "7f0c9a52-3a53-4f0e-9d2b-0d9f0f6a7c11"
	served := map[string]any{"model": "smart", "provider": "openai", "key_id": "key_1", "key_name": "ci", "status": 200,
		"outcome": "finished", "total": 1234 * time.Millisecond, "prompt_tokens": int64(12), "completion_tokens": int64(5),
		"cost_usd": "0.0012", "attempts": 2, "request_id": id, "details": "via_upstream"}
	failed := map[string]any{"model": "openai/gpt-4o", "provider": "openai", "key_id": "key_1", "status": 200,
		"outcome": "truncated", "error_code": "upstream_error", "request_id": id}
	refused := map[string]any{"path": "/v1/x\x1b[2J", "key_hint": "9896", "status": 401, "outcome": "rejected",
		"error_code": "invalid_api_key", "request_id": id, "total": 31 * time.Minute}
	wide, narrow, colors := &console.Text{Width: 120}, &console.Text{Width: 60}, &console.Text{Width: 120, Color: true}
	require.Equal(t, "03:04:05 200   1.2s smart → openai               ci             2 attempts, 17 tokens, $0.0012",
		wide.Line(console.Logged(at, served)))
	require.Equal(t, "03:04:05 200    0ms openai/gpt-4o                key_1          upstream_error  "+id,
		wide.Line(console.Logged(at, failed)))
	require.Equal(t, "03:04:05 401    31m /v1/x [2J                    unknown …9896  invalid_api_key  "+id,
		wide.Line(console.Logged(at, refused)))
	require.Equal(t, "03:04:05 401    31m /v1/x [2J                    unknown …9…", narrow.Line(console.Logged(at, refused)))
	for fields, want := range map[*map[string]any]console.Style{&served: console.Green, &failed: console.Red,
		&refused: console.Yellow} {
		require.Contains(t, colors.Line(console.Logged(at, *fields)), "\x1b["+string(want)+"m03:04:05")
	}
}

func TestWhatIsWatchedTakesThePlaceOfWhatWasShown(t *testing.T) {
	terminal, written := pty.Open(t, 90)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	require.NoError(t, console.Watch(ctx, terminal, time.Millisecond, func(w io.Writer) error {
		if n++; n == 3 {
			cancel()
			return errors.New("of the end")
		}
		_, err := fmt.Fprintln(w, "look", n, "at", console.For(w).Width)
		return err
	}))
	require.Equal(t, "\x1b[H\x1b[2Jlook 1 at 90\n\x1b[H\x1b[2Jlook 2 at 90\n", written())
}
