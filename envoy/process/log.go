package process

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger is the name of the logger of Envoy's lines, and of what happens to its process.
const Logger = "envoy"

// logFormat has Envoy write one line for each entry, whatever is in it: %_ is the message with its line ends escaped.
const (
	logMark   = "envoy|"
	logFormat = logMark + "%l|%n|%_"
)

// maxLogLine is where a line is cut. Envoy writes whole resources into some.
const maxLogLine = 8 << 10

// A logWriter takes what Envoy writes to its standard error and logs it line by line. It is safe for concurrent use.
type logWriter struct {
	log *zap.Logger

	mu      sync.Mutex // guards what follows
	line    []byte     // the beginning of a line whose end has not come
	failure string     // the last entry that says why Envoy ends
}

// Write logs the lines that p completes. It always takes all of p.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := p
	for {
		head, tail, complete := bytes.Cut(rest, []byte("\n"))
		if room := maxLogLine - len(w.line); len(head) > room {
			head = head[:room]
		}
		w.line = append(w.line, head...)
		if !complete {
			return len(p), nil
		}
		w.flush()
		rest = tail
	}
}

// Flush logs a last line that has no end, and returns the last failure that was logged, if any.
func (w *logWriter) Flush() (failure string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.flush()
	}
	failure, w.failure = w.failure, ""
	return failure
}

func (w *logWriter) flush() {
	e := parseLog(string(w.line))
	w.line = w.line[:0]
	if e.text == "" {
		return
	}
	if e.fatal {
		w.failure = e.text
	}
	w.log.Log(e.level, e.text, zap.String("component", e.component))
}

// An entry is one line of Envoy's log.
type entry struct {
	level     zapcore.Level
	component string // Envoy's name of the logger
	text      string
	fatal     bool
}

// parseLog reads a line in logFormat. A line that is not, such as one of the C++ runtime, is a warning.
func parseLog(line string) entry {
	rest, ok := strings.CutPrefix(line, logMark)
	level, rest, ok1 := strings.Cut(rest, "|")
	component, text, ok2 := strings.Cut(rest, "|")
	if !ok || !ok1 || !ok2 {
		return entry{level: zapcore.WarnLevel, component: "stderr", text: redact(strings.TrimSpace(line))}
	}
	e := entry{component: component, text: redact(strings.TrimSpace(text)), fatal: level == "critical"}
	switch level {
	case "critical", "error":
		e.level = zapcore.ErrorLevel
	case "warning", "warn":
		e.level = zapcore.WarnLevel
	default: // what Envoy does as long as it works is detail of the gateway
		e.level = zapcore.DebugLevel
	}
	return e
}

// secrets match what must not be logged. Envoy quotes a resource that it refuses, and a certificate's key may be in
// it; in one that is cut in the middle the end of the key is missing.
var secrets = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)` +
	`|(?i:bearer) +\S+|\bsk-[A-Za-z0-9_-]{8,}`)

func redact(text string) string { return secrets.ReplaceAllString(text, "[redacted]") }
