package proc

import (
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
