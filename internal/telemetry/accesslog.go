package telemetry

import (
	"errors"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// gatherFor is how long a line of the access log waits for others at most.
	gatherFor = 100 * time.Millisecond
	// gatherMost is how many bytes of lines wait at most.
	gatherMost = 32 << 10
)

// AccessLog returns the logger of the access log. Its lines wait a moment for others, and are written together: one
// Write for each request costs more than the line itself. Every line of the logger that it is made of takes those that
// wait with it, so that the log stays in order.
func AccessLog(log *zap.Logger) *zap.Logger {
	return log.Named(accessName).WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		if p, ok := c.(prompt); ok {
			return p.Core
		}
		return c
	}))
}

// prompt is a core whose lines do not wait.
type prompt struct{ zapcore.Core }

// With implements [zapcore.Core].
func (p prompt) With(fields []zapcore.Field) zapcore.Core { return prompt{p.Core.With(fields)} }

// Check implements [zapcore.Core].
func (p prompt) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if p.Enabled(e.Level) {
		return c.AddCore(e, p)
	}
	return c
}

// Write implements [zapcore.Core].
func (p prompt) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return errors.Join(p.Core.Write(e, fields), p.Sync())
}

// gathering keeps lines for a moment. A Write that fails loses its lines, and no others.
type gathering struct {
	mu      sync.Mutex // guards what follows
	w       io.Writer
	waiting []byte
	timer   *time.Timer // nil: no line waits
}

// Write implements [zapcore.WriteSyncer].
func (g *gathering) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, line...)
	if len(g.waiting) > gatherMost {
		return len(line), g.flush()
	}
	if g.timer == nil {
		g.timer = time.AfterFunc(gatherFor, func() { _ = g.Sync() }) // there is nobody to tell
	}
	return len(line), nil
}

// Sync implements [zapcore.WriteSyncer].
func (g *gathering) Sync() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.flush()
}

func (g *gathering) flush() error {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if len(g.waiting) == 0 {
		return nil
	}
	_, err := g.w.Write(g.waiting)
	g.waiting = g.waiting[:0]
	return err
}
