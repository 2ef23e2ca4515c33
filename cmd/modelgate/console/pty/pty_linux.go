// Package pty opens pseudo-terminals for tests. What a command writes to one is read at its other end.
package pty

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Open returns a terminal of a width, and what reads all that was written to it, as a screen would get it. The reader
// closes the terminal, and may be called once.
func Open(t *testing.T, width uint16) (terminal *os.File, written func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	fd := int(master.Fd()) //nolint:gosec // a descriptor is a small number
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: width}))
	all := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // it ends with an error when no terminal is open
		all <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	t.Cleanup(func() { _, _ = terminal.Close(), master.Close() })
	return terminal, func() string {
		require.NoError(t, terminal.Close())
		return <-all
	}
}
