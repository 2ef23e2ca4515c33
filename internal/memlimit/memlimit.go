// Package memlimit keeps a process within its memory limit: it detects the limit, configures Go's garbage collector,
// and reports when so much memory is in use that no new work should begin.
//
// The memory in use before a collection is no measure, because the collector lets garbage grow up to its limit. Only
// the memory in use after a collection counts.
package memlimit

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// envLimit is the variable by which an operator sets the limit of Go's runtime. It has precedence over the found
// limit.
const envLimit = "GOMEMLIMIT"

// Find returns how many bytes this process and others of its control group may take together: the least that the
// control group, one above it, or the machine allows. It is 0 if that is not known.
func Find() int64 { return find(os.DirFS("/")) }

// Set limits Go's part of the memory to a share of Find's result, unless $GOMEMLIMIT is set. It returns the limit
// in force, or 0 for none.
func Set(share float64) int64 {
	if os.Getenv(envLimit) == "" {
		if found := Find(); found > 0 {
			debug.SetMemoryLimit(int64(float64(found) * share))
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return 0
}

func find(root fs.FS) int64 {
	least := machine(root)
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case number == "0" && controllers == "": // version 2, alone or beside the other
			least = lesser(least, ofGroup(root, "sys/fs/cgroup", group, "memory.max"))
		case strings.Contains(","+controllers+",", ",memory,"):
			least = lesser(least, ofGroup(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
		}
	}
	return least
}

// ofGroup returns the least limit of a control group and of those above it, as far as they can be seen: in a container
// only that which is mounted as the root may be.
func ofGroup(root fs.FS, mount, group, file string) int64 {
	least := int64(0)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		least = lesser(least, number(root, path.Join(mount, at, file)))
		if at == "/" {
			return least
		}
	}
}

// number returns what a file says; 0 if it does not, or says "max", or what version 1 says if there is no limit.
func number(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= math.MaxInt64/2 {
		return 0
	}
	return n
}

// machine returns how much memory the machine has.
func machine(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// lesser returns the lesser of two limits. 0 is no limit.
func lesser(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
