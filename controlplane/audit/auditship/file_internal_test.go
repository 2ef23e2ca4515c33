package auditship

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// linesOf returns the entries in a file, and the lines that are none.
func linesOf(t *testing.T, path string) (k *taker, broken []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	k = &taker{}
	rest := string(text)
	for rest != "" {
		line, after, ended := strings.Cut(rest, "\n")
		var e adminapi.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || !ended {
			broken = append(broken, line)
		} else {
			k.take(e)
		}
		rest = after
	}
	return k, broken
}

func TestAFileGetsLines(t *testing.T) {
	w := newWorld(t)
	w.set(func() { w.objects = append(w.objects, toFile("disk", w.file)) })
	w.write(300)
	s := w.service()
	stop := w.run(s)
	w.delivered(s, "disk")
	info, err := os.Stat(w.file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	stop()

	// Somebody died while writing.
	f, err := os.OpenFile(w.file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"id":"half`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	w.write(3)
	s = w.service()
	w.run(s)
	w.delivered(s, "disk")
	k, broken := linesOf(t, w.file)
	w.requireAll(k)
	require.Equal(t, []string{`{"id":"half`}, broken)

	require.NoError(t, os.Rename(w.file, w.file+".1")) // it is rotated
	w.write(2)
	w.delivered(s, "disk")
	k, broken = linesOf(t, w.file)
	require.Len(t, k.taken(), 2)
	require.Empty(t, broken)
}

func TestADiskThatTakesAPartLeavesNoHalfLine(t *testing.T) {
	w := newWorld(t)
	w.set(func() { w.objects = append(w.objects, toFile("disk", w.file)) })
	w.write(250)
	s := w.service()
	var full atomic.Int32
	full.Store(3)
	s.sender.write = func(f *os.File, text []byte) (int, error) {
		if full.Add(-1) >= 0 {
			n, err := f.Write(text[:len(text)/3])
			require.NoError(t, err)
			return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
		}
		return f.Write(text)
	}
	w.run(s)
	w.delivered(s, "disk")
	k, broken := linesOf(t, w.file)
	w.requireAll(k)
	require.Empty(t, broken)
	require.Len(t, k.taken(), 250)
}

func TestADiskThatHangsHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	w.set(func() { w.objects = append(w.objects, toFile("disk", w.file)) })
	w.write(50)
	s := w.service()
	s.sender.patience = 50 * time.Millisecond
	release := make(chan struct{})
	s.sender.write = func(f *os.File, text []byte) (int, error) {
		<-release
		return f.Write(text)
	}
	stop := w.run(s)
	require.Eventually(t, func() bool {
		return w.status(s, "disk").Error == "the file cannot be written: the disk does not answer"
	}, patience, tick)
	stop()
	close(release)
	w.run(s)
	w.delivered(s, "disk")
	k, broken := linesOf(t, w.file)
	w.requireAll(k)
	require.Empty(t, broken)
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.write(1)
	s := w.service()
	b, err := (&follower{Service: s}).read(t.Context())
	require.NoError(t, err)
	got := s.sender.send(t.Context(), toFile("disk", filepath.Join(t.TempDir(), "other")), b)
	require.Equal(t, "its file is not allowed (--audit-file)", got.says, "also where somebody has written it into etcd")

	require.NoError(t, syscall.Mkfifo(w.file, 0o600))
	got = s.sender.send(t.Context(), toFile("disk", w.file), b)
	require.Equal(t, "the file cannot be written: it is not a regular file", got.says)
	require.NoError(t, os.Remove(w.file))
	require.NoError(t, os.Remove(filepath.Dir(w.file)))
	got = s.sender.send(t.Context(), toFile("disk", w.file), b)
	require.Equal(t, "the file cannot be written: no such file or directory", got.says)
}
