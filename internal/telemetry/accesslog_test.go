package telemetry_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/telemetry"
)

// A file notes what is written to it, Write by Write.
type file struct {
	mu     sync.Mutex // guards what follows: a timer writes too
	writes []string
	broken bool
}

func (f *file) written() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

func (f *file) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return 0, errors.New("no space left on device")
	}
	f.writes = append(f.writes, string(b))
	return len(b), nil
}

func newLog(t *testing.T) (log, access *zap.Logger, f *file) {
	f = &file{}
	log, err := telemetry.NewLogger(f, telemetry.LogOptions{Level: "info", Format: "json"})
	require.NoError(t, err)
	return log, telemetry.AccessLog(log), f
}

func TestLinesOfTheAccessLogAreWrittenTogetherAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, access, f := newLog(t)
		access.Info("first")
		access.Info("second")
		require.Empty(t, f.written())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, f.written(), 1)
		require.Regexp(t, `(?s)"logger":"access","msg":"first"}\n.*"msg":"second"}\n$`, f.written()[0])
		access.Info("third")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, f.written(), 2)
	})
}

func TestTheLogStaysInOrder(t *testing.T) {
	log, access, f := newLog(t)
	access.Info("first")
	log.With(zap.Int("n", 1)).Info("second")
	require.Len(t, f.written(), 1, "any other line is written at once, and takes those that wait with it")
	require.Less(t, strings.Index(f.written()[0], "first"), strings.Index(f.written()[0], "second"))
	access.Info("third")
	require.NoError(t, access.Sync())
	require.Contains(t, f.written()[1], "third")
}

func TestManyLinesDoNotWait(t *testing.T) {
	_, access, f := newLog(t)
	for range 1000 {
		access.Info(strings.Repeat("x", 100))
	}
	require.NoError(t, access.Sync())
	require.Less(t, len(f.written()), 10)
	require.Equal(t, 1000, bytes.Count([]byte(strings.Join(f.written(), "")), []byte("\n")))
}

func TestALogThatFailedGoesOn(t *testing.T) {
	log, access, f := newLog(t)
	f.broken = true
	access.Info("lost")
	log.Info("lost too")
	f.broken = false
	access.Info("kept")
	log.Info("kept too")
	require.Len(t, f.written(), 1)
	require.NotContains(t, f.written()[0], "lost")
	require.Contains(t, f.written()[0], "kept too")
}
