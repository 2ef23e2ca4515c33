package ledger_test

import (
	"bytes"
	"context"
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
	require.Eventually(t, func() bool { return l.Record(t.Context(), records) == nil }, 20*time.Second,
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

// A file that cannot be used ends nobody's start, and is used once it can be, without another start.
func TestADamagedFileIsUsedOnceItIsMended(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"garbage":  func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("garbage!"), 1000), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			require.NoError(t, damage(path))
			l, err := ledger.Open(t.Context(), "sqlite://"+path, zap.NewNop())
			require.NoError(t, err)
			require.Error(t, l.Ready())
			var mistake *fs.PathError
			require.Equal(t, name == "a folder", errors.As(l.Ready(), &mistake))
			require.NoError(t, os.Rename(path, path+".away"))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); l.Maintain(ctx, usual) }()
			require.Eventually(t, func() bool { return l.Ready() == nil }, time.Minute, 50*time.Millisecond)
			cancel()
			<-done
			require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{rec("one")}))
			require.NoError(t, l.Close())
		})
	}
}

func usual(context.Context) (ledger.Retention, error) { return ledger.Retention{}, nil }
