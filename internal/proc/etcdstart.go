package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// EtcdQuiet keeps etcd from logging while it starts and stops: what goes wrong at the start is returned, and of its
// end it says as errors that its sockets are closed.
const EtcdQuiet = zapcore.FatalLevel

const (
	// etcdReadyTimeout is how long etcd may take to read what it has.
	etcdReadyTimeout = 30 * time.Second
	// etcdCloseTimeout bounds its end: one that has given up on its files waits for itself.
	etcdCloseTimeout = 3 * time.Second
)

// damagedEtcd is an error that says what is wrong with the folder of etcd, and what helps. What may not be read is not
// damaged.
func damagedEtcd(dir string, what error) error {
	if errors.Is(what, fs.ErrPermission) {
		return fmt.Errorf("etcd in %s cannot be started: %w", dir, what)
	}
	return fmt.Errorf("etcd in %[1]s cannot be started: %[2]w. Restore a copy of the whole folder that was made while the gateway was stopped. Or move the folder away, start, and restore a backup of modelgate backup",
		dir, what)
}

// checkEtcd finds what etcd itself would not survive, or wait for without end.
func checkEtcd(dir string) error {
	member := filepath.Join(dir, "member")
	database, logs := filepath.Join(member, "snap", "db"), filepath.Join(member, "wal")
	for _, folder := range []string{dir, member, logs, filepath.Dir(database)} {
		if info, err := os.Stat(folder); err == nil && !info.IsDir() {
			return damagedEtcd(dir, errors.New(folder+" is not a folder"))
		}
		if _, err := os.ReadDir(folder); err != nil && !errors.Is(err, os.ErrNotExist) {
			return damagedEtcd(dir, err)
		}
	}
	info, err := os.Stat(database)
	used := err == nil && info.Size() > 0
	files, err := filepath.Glob(filepath.Join(logs, "*.wal"))
	if err != nil {
		return err
	}
	if used && len(files) == 0 {
		return damagedEtcd(dir, errors.New(logs+", its write-ahead log, is missing or empty although the database exists"))
	}
	var last uint64
	if len(files) > 0 {
		if last, err = lastLogged(logs, files[0]); err != nil {
			return damagedEtcd(dir, fmt.Errorf("%s, its write-ahead log, is damaged (%w)", logs, err))
		}
	}
	if used {
		if err := checkDatabase(database, info, last); err != nil {
			return damagedEtcd(dir, fmt.Errorf("%s, its database, is damaged (%w)", database, err))
		}
	}
	return nil
}

// lastLogged returns the index of the last entry of the write-ahead log. An end that is torn, as a crash leaves it, is
// none.
func lastLogged(logs, first string) (uint64, error) {
	if err := begun(first); err != nil {
		return 0, err
	}
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), logs)
	if err != nil {
		return 0, err
	}
	if len(snapshots) == 0 {
		return 0, errors.New("it has no beginning")
	}
	from := snapshots[len(snapshots)-1]
	w, err := wal.OpenForRead(zap.NewNop(), logs, from)
	if err != nil {
		return 0, err
	}
	metadata, _, entries, err := w.ReadAll()
	_ = w.Close() // for one that was opened to be read it is always an error
	if err != nil {
		return 0, err
	}
	if metadata == nil {
		return 0, errors.New("it has no beginning")
	}
	if n := len(entries); n > 0 {
		return entries[n-1].GetIndex(), nil
	}
	return from.GetIndex(), nil
}

// begun reports that a file of the write-ahead log has not even a beginning.
func begun(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	first := make([]byte, 8)
	if _, err := io.ReadFull(f, first); err != nil {
		return fmt.Errorf("%s is empty: %w", path, err)
	}
	return nil
}

// checkDatabase opens the database for reading: a file that is shorter than it says would end the process when it is
// read, and for what the log has not, etcd would wait for ever.
func checkDatabase(path string, info os.FileInfo, logged uint64) (err error) {
	if !info.Mode().IsRegular() {
		return errors.New("it is not a file")
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes of %d", info.Size(), tx.Size())
		}
		meta := tx.Bucket([]byte("meta"))
		if meta == nil {
			return nil
		}
		if applied := meta.Get([]byte("consistent_index")); len(applied) == 8 && binary.BigEndian.Uint64(applied) > logged {
			return fmt.Errorf("it contains change %d, but its write-ahead log ends with %d",
				binary.BigEndian.Uint64(applied), logged)
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// An etcdEnd takes the last words of an etcd that gives up, which would otherwise end the process at once: its
// goroutine ends instead.
type etcdEnd struct {
	said chan error // the first
}

func newEtcdEnd() *etcdEnd { return &etcdEnd{said: make(chan error, 1)} }

// OnWrite implements [zapcore.CheckWriteHook].
func (e *etcdEnd) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	text := errors.New(entry.Message)
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			text = fmt.Errorf("%s: %w", entry.Message, err)
		}
	}
	e.say(text)
	runtime.Goexit()
}

func (e *etcdEnd) say(err error) {
	select {
	case e.said <- err:
	default:
	}
}

// options have a logger of etcd's end its goroutine and not the process.
func (e *etcdEnd) options() []zap.Option {
	return []zap.Option{zap.WithFatalHook(e), zap.WithPanicHook(e)}
}

// openEtcd starts an etcd and waits until it is ready, which ends with ctx at any moment.
func openEtcd(ctx context.Context, config *embed.Config, end *etcdEnd) (*embed.Etcd, error) {
	if err := checkEtcd(config.Dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, etcdReadyTimeout,
		errors.New("it is not ready after "+etcdReadyTimeout.String()))
	defer cancel()
	started := make(chan *embed.Etcd, 1)
	go func() { // it cannot be stopped, and ends with the process if it does not by itself
		defer func() {
			if p := recover(); p != nil {
				end.say(fmt.Errorf("%v", p))
			}
		}()
		server, err := embed.StartEtcd(config)
		if err != nil {
			end.say(err)
			return
		}
		started <- server
	}()
	var server *embed.Etcd
	var ready <-chan struct{}
	var failed <-chan error
	for {
		select {
		case server = <-started:
			ready, failed, started = server.Server.ReadyNotify(), server.Err(), nil
			continue
		case <-ready:
			return server, nil
		case err := <-failed:
			closeEtcd(server)
			return nil, damagedEtcd(config.Dir, err)
		case err := <-end.said:
			return nil, damagedEtcd(config.Dir, err)
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return nil, damagedEtcd(config.Dir, err)
			}
			return nil, ctx.Err()
		}
	}
}

// closeEtcd ends an etcd, or leaves it to the end of the process if it does not end.
func closeEtcd(server *embed.Etcd) {
	done := make(chan struct{})
	go func() { defer close(done); server.Close() }()
	select {
	case <-done:
	case <-time.After(etcdCloseTimeout):
	}
}
