package admin

import (
	"net/http"
	"strings"
)

// Readyz splits what /readyz has said into whether the process serves, ok or why not, and what it says besides.
func Readyz(status int, body []byte) (ready string, says []string) {
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	ready = lines[0]
	switch {
	case status == http.StatusOK:
		ready = HealthOK
	case ready == "":
		ready = http.StatusText(status)
	}
	return ready, lines[1:]
}

// How what /readyz says besides begins: how bad it is, and then what it is about.
const (
	SaysWarning  = "warning: "
	SaysError    = "error: "
	SaysNoLedger = "no ledger: " // it cannot be used
	SaysNoJobs   = "no job service: "
	SaysShort    = "memory: "
	SaysBodies   = "bodies: "
)

// OneLine shows a text as one line, without what a terminal would take for a command.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ReplaceAll(s, "\n", "; "))
}
