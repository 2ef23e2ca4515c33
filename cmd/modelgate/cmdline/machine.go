package cmdline

import (
	"io"
	"os"
	"runtime/debug"
)

// Version is the version of the module, or the commit that was built.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// Hostname names this machine in the control plane if the operator does not.
func Hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "modelgate"
	}
	return name
}

// IsTerminal reports whether somebody reads along.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
