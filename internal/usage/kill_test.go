package usage_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/usage"
)

// victim is set for the process that is killed: the folder of its spool, its ledger's socket, and its number.
const victim = "MODELGATE_TEST_SPOOL_VICTIM"

// service serves a keeper.
type service struct {
	ledgerv1.UnimplementedLedgerServer
	keeper *keeper
}

func (s service) Record(_ context.Context, r *ledgerv1.RecordRequest) (*ledgerv1.RecordAnswer, error) {
	return s.keeper.keep(r)
}

// A process is killed at random, started anew, and killed again. What Begin or End had returned for is in the ledger
// in the end, as the last of them said, and once.
func TestAProcessThatIsKilled(t *testing.T) {
	if arguments := os.Getenv(victim); arguments != "" {
		beKilled(t, strings.Split(arguments, "|"))
		return
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir, k := t.TempDir(), newKeeper()
	socket := filepath.Join(dir, "ledger.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	ledgerv1.RegisterLedgerServer(server, service{keeper: k})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer func() { server.Stop(); serving.Wait() }()

	noted := map[string]string{} // what the last call that returned was, by id
	for generation := range 8 {
		k.set(generation%3 == 1) // then it ships nothing
		runVictim(t, strings.Join([]string{dir, socket, strconv.Itoa(generation)}, "|"),
			time.Duration(50+random.IntN(300))*time.Millisecond, noted)
	}
	k.set(false)
	flush(open(t, options(filepath.Join(dir, "spool"))), k)
	require.NotEmpty(t, noted)
	interrupted := 0
	for id, last := range noted {
		r := k.records[id]
		require.NotNil(t, r, "%s %s is lost", last, id)
		if last == "end" {
			require.Equal(t, "finished", r.GetOutcome(), id)
			require.Equal(t, int64(2), r.GetOutputTokens(), id)
		} else if r.GetOutcome() == "interrupted" { // its end may have been written, too, before its line was
			interrupted++
			require.Equal(t, int64(1), r.GetOutputTokens(), id)
		}
	}
	t.Logf("%d exchanges, %d interrupted, %d shipped twice", len(noted), interrupted, k.twice)
	require.LessOrEqual(t, len(k.records), len(noted)+8*10, "beyond those, only what each process had in hand can be there")
}

// runVictim runs the process for some time, and notes what it says.
func runVictim(t *testing.T, arguments string, after time.Duration, noted map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessThatIsKilled$")
	cmd.Env = append(os.Environ(), victim+"="+arguments)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "it starts")
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		what, id, found := strings.Cut(lines.Text(), " ")
		require.True(t, found && (what == "begin" || what == "end"), lines.Text())
		if id, whole := strings.CutSuffix(id, "."); whole {
			noted[id] = what
		}
	}
	require.Error(t, cmd.Wait(), "it is killed")
}

func beKilled(t *testing.T, arguments []string) {
	o := usage.SpoolOptions{Dir: filepath.Join(arguments[0], "spool"), SegmentBytes: 1, Log: zap.NewNop()}
	s, err := usage.OpenSpool(o)
	require.NoError(t, err)
	conn, err := grpc.NewClient("unix://"+arguments[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	go s.Run(t.Context(), ledgerv1.NewLedgerClient(conn))
	_, _ = os.Stdout.WriteString("started\n")
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprint(arguments[2], "/", w, "/", i)
				s.Begin(rec(id, 1))
				_, _ = os.Stdout.WriteString("begin " + id + ".\n")
				if i%50 == 7 {
					continue // it never ends
				}
				s.End(rec(id, 2))
				_, _ = os.Stdout.WriteString("end " + id + ".\n")
			}
		}()
	}
	<-t.Context().Done()
	select {}
}
