package e2e

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A wire is a connection to PostgreSQL over TCP that can be cut.
type wire struct {
	url string

	mu    sync.Mutex // guards what follows
	cut   bool
	conns []net.Conn
}

// newWire returns a wire to a new database.
func newWire(t *testing.T) *wire {
	to, err := url.Parse(pgtest.Start(t))
	require.NoError(t, err)
	socket := filepath.Join(to.Query().Get("host"), ".s.PGSQL.5432")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	to.Host, to.RawQuery = l.Addr().String(), "sslmode=disable"
	w := &wire{url: to.String()}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil || !w.adds(near, far) {
				_ = near.Close()
				continue
			}
			go w.copy(near, far)
			go w.copy(far, near)
		}
	}()
	return w
}

func (w *wire) adds(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conns...)
	if w.cut {
		_ = conns[1].Close()
	}
	return !w.cut
}

func (w *wire) copy(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// A hung is an Envoy as the control plane sees it: a client that is there, and takes configuration while it can.
type hung struct{ take chan bool }

func dialHung(t *testing.T, address string) *hung {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters,
		Node: &corev3.Node{Id: "hung", Cluster: envoy.RoleEnvoy}}))
	h, nonces := &hung{make(chan bool)}, make(chan string)
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case nonces <- r.GetNonce():
			case <-t.Context().Done():
			}
		}
	}()
	go func() {
		takes := true
		for {
			from := nonces
			if !takes {
				from = nil
			}
			select {
			case nonce := <-from:
				_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters, ResponseNonce: nonce})
			case takes = <-h.take:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return h
}

// TestPartsThatAreAwayHaveIncidents takes away what the parts of a gateway need: the ledger, the Redis of limits, the
// folder of the spool, the job service. And an Envoy hangs.
func TestPartsThatAreAwayHaveIncidents(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	redis, ledger := redistest.Start(t), newWire(t)
	s := newJobSplit(t)
	s.ledger, s.limits, s.spool = ledger.url, redis.URL, filepath.Join(s.Dir, "spool")
	for i := range s.planes {
		s.planes[i] = s.startPlane(i)
	}
	s.configure()
	s.startExtProc()
	s.startEnvoy()
	s.startService(0)
	w := &ward{t: t, at: s.at(0), list: func(closed ...adminapi.Flag) ([]adminapi.Incident, error) {
		all, err := adminapi.NewClient(s.Admin, s.File(t, "admin-token"), s.gateway.Client).Incidents(t.Context(), closed...)
		return all.Items, err
	}}
	harness.Eventually(t, "the key works", func() error { return s.accepts(s.Key) })
	s.awaitJobs(t)
	hung := dialHung(t, s.listen[0])

	spool := s.spool
	require.NoError(t, os.Rename(spool, spool+".away"))
	require.NoError(t, os.WriteFile(spool, nil, 0o600))
	first := time.Now()
	require.NoError(t, s.chat(), "traffic goes on")
	host, err := os.Hostname()
	require.NoError(t, err)
	process := host + ":" + spool
	w.ill(illness{kind: adminapi.AttentionSpool, subject: "spool/" + process, first: first, slack: watched,
		why: "The spool of " + process + " has trouble since ", end: func() {
			require.NoError(t, os.Remove(spool))
			require.NoError(t, os.Rename(spool+".away", spool))
		}})
	first = time.Now()
	redis.Stop()
	w.ill(illness{kind: adminapi.AttentionStore, subject: "store/" + process, first: first, slack: watched,
		why: process + " lacks a store since ", end: func() { redis.Restart(t) }})
	first = time.Now()
	s.services[0].Kill()
	w.ill(illness{kind: adminapi.AttentionJobs, subject: "jobs", first: first, slack: watched,
		why: "No job service is connected since ", end: func() { s.startService(0) }})
	hung.take <- false
	first = time.Now()
	harness.Must(t, "kind: Provider\nname: late\nvendor: echo\nendpoint: "+s.echo+"\n",
		append([]string{"config", "apply", "--no-wait", "-f", "-"}, s.at(0)...)...)
	w.ill(illness{kind: adminapi.AttentionDataPlane, subject: "dataplane/envoy/hung", first: first, last: time.Now(),
		why: "envoy hung does not use the newest configuration since ", change: "root created Provider late",
		end: func() { hung.take <- true }})

	first = time.Now()
	ledger.set(true)
	harness.Eventually(t, "the gateway sees that the ledger is away", func() error {
		for _, p := range s.planes {
			for _, line := range p.Lines() {
				if strings.Contains(line, "incidents could not be judged") {
					return nil
				}
			}
		}
		return errStill
	})
	ledger.set(false)
	w.ill(illness{kind: adminapi.AttentionLedger, subject: "ledger", first: first, slack: watched, over: time.Now(),
		why: "Usage, budgets and the health of providers are not known since "})
	require.Equal(t, proofs()[t.Name()], w.kinds())
	w.await()
	w.end()
}
