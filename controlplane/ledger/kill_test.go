package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/usage"
)

// victim is set for the process that is killed: the address of its database, and its socket.
const victim = "MODELGATE_TEST_LEDGER_VICTIM"

// A ledger's process is killed at random while a spool ships to it, and started anew. In the end all is there, once.
func TestALedgerThatIsKilled(t *testing.T) {
	t.Parallel()
	if arguments := os.Getenv(victim); arguments != "" {
		dsn, socket, _ := strings.Cut(arguments, "|")
		beKilled(t, dsn, socket)
		return
	}
	onBoth(t, func(t *testing.T, dsn string) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		dir := t.TempDir()
		socket := filepath.Join(dir, "s")
		spool, err := usage.OpenSpool(usage.SpoolOptions{Dir: filepath.Join(dir, "spool"), Log: zap.NewNop()})
		require.NoError(t, err)
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond,
				MaxDelay: 50 * time.Millisecond, Multiplier: 2}}))
		require.NoError(t, err)
		defer conn.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 3 { // as impatient as a spool is not
			running.Go(func() {
				for ctx.Err() == nil {
					_, _ = ledgerv1.NewLedgerClient(conn).Record(ctx,
						&ledgerv1.RecordRequest{Records: []*ledgerv1.Record{rec("shared"), rec("other")}})
					_, _ = ledgerv1.NewLedgerClient(conn).Spent(ctx, &ledgerv1.SpentRequest{}) // has records added to the sums
				}
			})
		}
		money, fallbacks := int64(2000), int64(0)
		for generation := range 5 {
			kill := runVictim(t, dsn, socket)
			enough := time.Now().Add(time.Duration(100+random.IntN(300)) * time.Millisecond)
			for i := 0; time.Now().Before(enough) && i < 900; i++ {
				r := rec(fmt.Sprint(generation, "/", i), func(r *ledgerv1.Record) { r.CostNanoUsd = int64(i) })
				if i%10 == 0 {
					r = fellBack(r.GetId(), noon)
					r.CostNanoUsd = int64(i)
					fallbacks++
				}
				money += r.CostNanoUsd
				spool.End(r)
				if i%100 == 0 {
					flush(spool, ledgerv1.NewLedgerClient(conn), 30*time.Millisecond)
				}
			}
			kill()
		}
		kill := runVictim(t, dsn, socket)
		registry := prometheus.NewRegistry() // a spool that is opened again says what is left
		require.NoError(t, spool.Close())
		spool, err = usage.OpenSpool(usage.SpoolOptions{Dir: filepath.Join(dir, "spool"), Log: zap.NewNop(),
			Registerer: registry})
		require.NoError(t, err)
		running.Go(func() { spool.Run(ctx, ledgerv1.NewLedgerClient(conn)) })
		require.Eventually(t, func() bool {
			return backlog(registry) == 0
		}, 30*time.Second, 20*time.Millisecond)
		cancel()
		running.Wait()
		kill()
		require.NoError(t, spool.Close())
		l := withBlobs(t, open(t, dsn), socket)
		_, cost := requireSums(t, l)
		require.Equal(t, money, cost)
		l.SetNow(later)
		require.NoError(t, l.Merge(t.Context()))
		l.SetNow(func() time.Time { return noon })
		_, again := requireSums(t, l)
		require.Equal(t, money, again)
		blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "requests", "*", "*.parquet"))
		require.NoError(t, err)
		require.NotEmpty(t, blobs)
		require.Equal(t, fallbacks, healthOf(t, l, "dead").Last24Hours.Attempts)
		require.Equal(t, fallbacks, healthOf(t, l, "second").Last24Hours.Attempts)
	})
}

// later is when what was kept just now is old.
func later() time.Time { return time.Now().Add(2 * time.Hour) }

// withBlobs gives a ledger the blob store beside a socket.
func withBlobs(t *testing.T, l *ledger.Ledger, socket string) *ledger.Ledger {
	bucket, err := blobstore.Open(t.Context(), "file://"+filepath.Join(filepath.Dir(socket), "blobs"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	l.Use(bucket)
	return l
}

func backlog(registry *prometheus.Registry) float64 {
	families, err := registry.Gather()
	for _, f := range families {
		if err == nil && f.GetName() == "modelgate_ledger_backlog_records" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// flush ships what there is for at most some time.
func flush(s usage.Spool, to ledgerv1.LedgerClient, most time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Run(ctx, impatient{to, most})
}

// impatient is a ledger that is not waited for.
type impatient struct {
	ledgerv1.LedgerClient
	most time.Duration
}

func (i impatient) Record(ctx context.Context, r *ledgerv1.RecordRequest,
	o ...grpc.CallOption) (*ledgerv1.RecordAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, i.most)
	defer cancel()
	return i.LedgerClient.Record(ctx, r, append(o, grpc.WaitForReady(true))...)
}

// runVictim starts a process that serves the ledger, and returns what kills it.
func runVictim(t *testing.T, dsn, socket string) (kill func()) {
	t.Helper()
	require.NoError(t, os.RemoveAll(socket))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestALedgerThatIsKilled$")
	cmd.Env = append(os.Environ(), victim+"="+dsn+"|"+socket)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "serving", lines.Text())
	return func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}
}

func beKilled(t *testing.T, dsn, socket string) {
	l := withBlobs(t, open(t, dsn), socket)
	l.SetNow(later)
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	ledgerv1.RegisterLedgerServer(server, ledger.NewService(l))
	go func() {
		for t.Context().Err() == nil {
			_ = l.Merge(t.Context()) // and be killed in its midst
		}
	}()
	_, _ = os.Stdout.WriteString("serving\n")
	require.NoError(t, server.Serve(listener))
}
