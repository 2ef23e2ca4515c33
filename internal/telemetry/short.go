package telemetry

import (
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// accessName is the last part of the name of the access log's logger.
const accessName = "access"

// Short says how a log is shown to a person who watches it.
type Short struct {
	// Request returns the line of a request, from when it ended and the fields of its line in the access log.
	Request func(at time.Time, fields map[string]any) string
	// Shows reports whether another line is written.
	Shows func(zapcore.Entry) bool
}

// short is a core that writes a short line for each line of the access log.
type short struct {
	zapcore.Core // of other lines
	Short
	w *gathering
}

// With implements [zapcore.Core].
func (s *short) With(fields []zapcore.Field) zapcore.Core {
	return &short{s.Core.With(fields), s.Short, s.w}
}

// Check implements [zapcore.Core].
func (s *short) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	switch {
	case ofAccess(e) && s.Enabled(e.Level):
		return c.AddCore(e, s)
	case !ofAccess(e) && s.Shows(e):
		return s.Core.Check(e, c)
	}
	return c
}

// Write implements [zapcore.Core]. It gets the lines of the access log.
func (s *short) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(all)
	}
	_, err := s.w.Write([]byte(s.Request(e.Time, all.Fields) + "\n"))
	return err
}

func ofAccess(e zapcore.Entry) bool {
	return e.LoggerName == accessName || strings.HasSuffix(e.LoggerName, "."+accessName)
}
