package proc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
)

func TestEtcdKeepsItsDataAndServesOnItsSocket(t *testing.T) {
	sockets, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(sockets)) })
	dir := filepath.Join(t.TempDir(), "etcd")

	p := parts.New(zap.NewNop())
	inside, err := StartEtcd(t.Context(), p, dir, sockets, 0, zap.NewNop())
	require.NoError(t, err)
	_, err = inside.Put(t.Context(), "key", "value")
	require.NoError(t, err)
	require.NoError(t, p.Stop(t.Context()))

	// The sockets are elsewhere when the data folder's path has become too long.
	elsewhere, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(elsewhere)) })
	_, err = StartEtcd(t.Context(), p, dir, elsewhere, 0, zap.NewNop())
	require.NoError(t, err)
	outside, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + filepath.Join(elsewhere, "etcd.sock")}, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	got, err := outside.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	require.Equal(t, "value", string(got.Kvs[0].Value))
	require.NoError(t, outside.Close())
	require.NoError(t, p.Stop(t.Context()))
}

// What etcd does not survive, or waits for without end, is an error that names the file and says what helps. Nothing
// of it is changed.
func TestADamagedEtcdSaysWhatIsWrong(t *testing.T) {
	sockets, err := os.MkdirTemp("", "mg") // a test's own folder is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(sockets)) })
	whole := t.TempDir()
	p := parts.New(zap.NewNop())
	inside, err := StartEtcd(t.Context(), p, whole, sockets, 0, zap.NewNop())
	require.NoError(t, err)
	for range 100 {
		_, err = inside.Put(t.Context(), "key", "value")
		require.NoError(t, err)
	}
	require.NoError(t, p.Stop(t.Context()))
	const log, database = "member/wal/0000000000000000-0000000000000000.wal", "member/snap/db"
	garbage := []byte(strings.Repeat("garbage!", 10_000))

	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string // empty: it heals
	}{
		"no write-ahead log": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "member/wal")) },
			"member/wal"},
		"its only file is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, log)) }, "member/wal"},
		"its file is empty":     {func(dir string) error { return os.Truncate(filepath.Join(dir, log), 0) }, log},
		"its end is gone": {func(dir string) error { return os.Truncate(filepath.Join(dir, log), 2000) },
			"but its write-ahead log ends"},
		"its file is garbage": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, log), garbage, 0o600)
		}, "member/wal"},
		"its file is a folder":  {func(dir string) error { return folderFor(filepath.Join(dir, log)) }, log},
		"no database":           {func(dir string) error { return os.Remove(filepath.Join(dir, database)) }, ""},
		"the database is empty": {func(dir string) error { return os.Truncate(filepath.Join(dir, database), 0) }, ""},
		"the database's end is gone": {func(dir string) error { return os.Truncate(filepath.Join(dir, database), 9000) },
			database},
		"the database is garbage": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, database), garbage, 0o600)
		}, database},
		"the database is a folder": {func(dir string) error { return folderFor(filepath.Join(dir, database)) }, database},
		"nothing is left":          {os.RemoveAll, ""},
		"a file in its place": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, "is not a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etcd")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			require.NoError(t, os.Chmod(dir, 0o700))
			require.NoError(t, c.damage(dir))
			p := parts.New(zap.NewNop())
			_, err := StartEtcd(t.Context(), p, dir, sockets, 0, zap.NewNop())
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, "Restore a copy")
			}
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}

// folderFor puts a folder in the place of a file.
func folderFor(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }

// A start ends with its context while etcd takes its time, and etcd's last words are an error and not the end of the
// process.
func TestEtcdThatGivesUpEndsInOrder(t *testing.T) {
	end := newEtcdEnd()
	done := make(chan struct{})
	go func() {
		defer close(done)
		zap.NewNop().WithOptions(end.options()...).Fatal("failed to save", zap.Error(os.ErrClosed))
		t.Error("it went on")
	}()
	<-done
	require.ErrorIs(t, <-end.said, os.ErrClosed)
}

func TestWhatMayNotBeReadIsNotDamaged(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/data/etcd/member/wal", Err: syscall.EACCES}
	require.ErrorIs(t, damagedEtcd("/data/etcd", denied), fs.ErrPermission)
	require.NotContains(t, damagedEtcd("/data/etcd", denied).Error(), "backup")
	require.Contains(t, damagedEtcd("/data/etcd", io.ErrUnexpectedEOF).Error(), "backup")
}
