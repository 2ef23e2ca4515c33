package telemetry

import "strings"

// MaxText bounds what a log line has of a text that a client or a provider chose, in bytes: a path, a request id, an
// error's code.
const MaxText = 256

// Clip returns s, or its first MaxText bytes and an ellipsis where it is longer. A rune at the cut is left out whole.
func Clip(s string) string {
	if len(s) <= MaxText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxText], "") + "…"
}
