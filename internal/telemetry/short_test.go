package telemetry

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestAWatchedLogHasAShortLineARequest has requests in short lines, in their order, and only some of the others.
func TestAWatchedLogHasAShortLineARequest(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, LogOptions{Level: "info", Format: "console", Short: &Short{
		Request: func(_ time.Time, fields map[string]any) string {
			return fmt.Sprint(fields["status"], " ", fields["in"])
		},
		Shows: func(e zapcore.Entry) bool { return e.Level >= zapcore.WarnLevel },
	}})
	require.NoError(t, err)
	access := AccessLog(log.Named("extproc"))
	access.Info("request", zap.Inline(zapcore.ObjectMarshalerFunc(func(e zapcore.ObjectEncoder) error {
		e.AddString("in", "line")
		return nil
	})), zap.Int("status", 200))
	access.Debug("request")
	log.Info("nothing to see")
	log.With(zap.Int("n", 1)).Warn("wrong", zap.String("why", "so"))
	require.Regexp(t, `^200 line\n.*WARN\twrong\t\{"n": 1, "why": "so"\}\n$`, out.String())
}
