package ledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/pgtest"
)

// TestAControlPlaneStartsWithoutItsDatabase is pitfall 119.
func TestAControlPlaneStartsWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	real, err := url.Parse(pgtest.Start(t))
	require.NoError(t, err)
	folder := real.Query().Get("host")
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := reserved.Addr().String()
	require.NoError(t, reserved.Close())

	dsn := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: address, Path: real.Path,
		RawQuery: "sslmode=disable"}
	l, err := ledger.Open(t.Context(), dsn.String(), zap.NewNop())
	require.NoError(t, err, "nobody listens")
	defer func() { require.NoError(t, l.Close()) }()
	records := []*ledgerv1.Record{rec("1")}
	require.Error(t, l.Record(t.Context(), records), "they stay with who has them")
	registry := prometheus.NewRegistry()
	require.NoError(t, l.Register(registry))
	_, err = ledger.NewService(l).Record(t.Context(), &ledgerv1.RecordRequest{Records: records})
	require.Error(t, err)
	require.NoError(t, testutil.GatherAndCompare(registry,
		strings.NewReader("# HELP modelgate_ledger_unserved_total Calls of the data plane and the job service that the ledger could not serve. They are made again: nothing is lost by that.\n"+
			"# TYPE modelgate_ledger_unserved_total counter\nmodelgate_ledger_unserved_total 1\n"),
		"modelgate_ledger_unserved_total"))

	ctx, stop := context.WithCancel(t.Context())
	var maintaining sync.WaitGroup
	maintaining.Go(func() { l.Maintain(ctx, usual) })
	defer maintaining.Wait()
	defer stop()
	forward(t, address, filepath.Join(folder, ".s.PGSQL.5432"))
	require.Eventually(t, func() bool { return l.Record(t.Context(), records) == nil }, time.Minute,
		50*time.Millisecond)
}

// forward has connections to an address lead to a socket until the test ends.
func forward(t *testing.T, address, socket string) {
	at, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = at.Close() })
	go func() {
		for {
			from, err := at.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
}

// A file that cannot be used ends the start, which names it and the remedy. A full disk ends nothing.
func TestADamagedFileEndsTheStart(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"garbage":  func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("garbage!"), 1000), 0o600) },
		"cut": func(path string) error {
			l, err := ledger.Open(context.Background(), "sqlite://"+path, zap.NewNop())
			return errors.Join(err, l.Close(), os.Truncate(path, 6000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			require.NoError(t, damage(path))
			_, err := ledger.Open(t.Context(), "sqlite://"+path, zap.NewNop())
			require.ErrorContains(t, err, "opening the ledger "+path+" (restore it from a copy, or move it away): ")
			var mistake *fs.PathError
			require.Equal(t, name == "a folder", errors.As(err, &mistake))
		})
	}
}

// TestAFileThatIsLockedIsUsedLater: what time may mend ends nobody's start.
func TestAFileThatIsLockedIsUsedLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	other.SetMaxOpenConns(1)
	_, err = other.Exec("BEGIN EXCLUSIVE")
	require.NoError(t, err)
	l, err := ledger.Open(t.Context(), "sqlite://"+path, zap.NewNop())
	require.NoError(t, err)
	require.Error(t, l.Ready())
	_, err = other.Exec("ROLLBACK")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Maintain(ctx, usual) }()
	require.Eventually(t, func() bool { return l.Ready() == nil }, time.Minute, 50*time.Millisecond)
	cancel()
	<-done
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{rec("one")}))
	require.NoError(t, l.Close())
}

func usual(context.Context) (ledger.Retention, error) { return ledger.Retention{}, nil }
