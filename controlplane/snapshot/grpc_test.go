package snapshot

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// serve serves a bench over gRPC until the test ends, and returns a client.
func (b *bench) serve(t *testing.T) discoveryv3.AggregatedDiscoveryServiceClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(ServerOptions()...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, b.service)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); served.Wait() })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

func TestOverGRPC(t *testing.T) {
	b := newBench(t)
	client := b.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b.Publish(update(42, providerOf("a", 1)))
	<-b.Published()

	s, err := client.DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "e", Cluster: envoy.RoleEnvoy}, TypeUrl: clusters,
	}))
	r, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, "42", r.GetSystemVersionInfo())
	require.Equal(t, []string{"a/first", "a/retry"}, names(r))
	require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: clusters, ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: "a/retry: no good"},
	}))
	r, err = s.Recv()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a/first", "a/retry"}, r.GetRemovedResources())
	require.Contains(t, b.ObjectError(xds.KindProvider, "a"), "a/retry: no good")

	stranger, err := client.DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	require.NoError(t, stranger.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters}))
	_, err = stranger.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err))

	whole, err := client.StreamAggregatedResources(ctx)
	require.NoError(t, err)
	_, err = whole.Recv()
	require.Equal(t, codes.Unimplemented, status.Code(err), "state of the world is not served")
}

// Clients that come and go, refuse and take, while the configuration changes: what counts is the race detector, that
// nothing hangs, and that every client ends with the last configuration.
func TestManyClientsAndChangesAtOnce(t *testing.T) {
	b := newBench(t)
	client := b.serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	const last = 500
	var mu sync.Mutex // guards revision
	revision := 0
	change := func() { // with every response that any client gets
		mu.Lock()
		defer mu.Unlock()
		if revision < last {
			revision++
			u := update(int64(revision), providerOf("a", revision), providerOf(fmt.Sprintf("p%d", revision%7), revision))
			u.Keys = keysOf(fmt.Sprint(revision), "k", fmt.Sprintf("k%d", revision%7))
			b.Publish(u)
		}
	}
	change()
	var all sync.WaitGroup
	for n := range 5 {
		all.Go(func() {
			for done := false; !done; {
				var err error
				if done, err = visit(ctx, client, n, last, change); err != nil {
					t.Errorf("client %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// visit is one stream of a client. It reports done when it has what was published last; now and then it refuses
// something or hangs up before.
func visit(ctx context.Context, client discoveryv3.AggregatedDiscoveryServiceClient, n, last int,
	change func()) (done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	role, typeURL := envoy.RoleEnvoy, clusters
	switch {
	case n == 4:
		role, typeURL = envoy.RoleExtProc, keys
	case n%2 == 1:
		role, typeURL = envoy.RoleExtProc, providers
	}
	s, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	request := &discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: fmt.Sprint(n), Cluster: role}, TypeUrl: typeURL}
	for {
		if err := s.Send(request); err != nil {
			return false, err
		}
		r, err := s.Recv()
		if err != nil {
			return false, err
		}
		change()
		if r.GetSystemVersionInfo() == fmt.Sprint(last) {
			return true, nil
		}
		request = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: r.GetNonce()}
		switch rand.IntN(10) {
		case 0:
			return false, nil
		case 1, 2:
			request.ErrorDetail = &rpcstatus.Status{Message: "p3/first p3: no good"}
		}
	}
}
