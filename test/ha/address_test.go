package ha

import (
	"fmt"
	"net"
	"sync"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/modelgate/modelgate/controlplane/snapshot"
)

// An addressing gives an Envoy an address of its own, as a pod has one: it stands between it and the control planes,
// and in the listeners that they send it, which are the same for all, it puts this address in the place of the common
// one. All else passes as it is.
type addressing struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	upstream discoveryv3.AggregatedDiscoveryServiceClient
	ip       string // of ports
	suffix   string // of Unix sockets
}

// newAddressing returns where an Envoy finds the control planes that are behind a service.
func newAddressing(t testing.TB, controlPlanes, ip, suffix string) (address string) {
	up, err := grpc.NewClient("passthrough:///"+controlPlanes, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	require.NoError(t, err)
	server := grpc.NewServer(snapshot.ServerOptions()...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &addressing{
		upstream: discoveryv3.NewAggregatedDiscoveryServiceClient(up), ip: ip, suffix: suffix,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // it ends with Stop
	t.Cleanup(func() { server.Stop(); serving.Wait(); _ = up.Close() })
	return l.Addr().String()
}

// DeltaAggregatedResources passes a stream on until either side ends it.
func (a *addressing) DeltaAggregatedResources(
	down discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	up, err := a.upstream.DeltaAggregatedResources(down.Context())
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() {
		for {
			r, err := down.Recv()
			if err == nil {
				err = up.Send(r)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() {
		for {
			r, err := up.Recv()
			if err == nil {
				err = a.rewrite(r)
			}
			if err == nil {
				err = down.Send(r)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	return <-ended // the end of the handler ends both streams, and so the other direction
}

func (a *addressing) rewrite(r *discoveryv3.DeltaDiscoveryResponse) error {
	if r.GetTypeUrl() != resource.ListenerType {
		return nil
	}
	for _, res := range r.GetResources() {
		var l listenerv3.Listener
		if err := res.GetResource().UnmarshalTo(&l); err != nil {
			return fmt.Errorf("listener %s: %w", res.GetName(), err)
		}
		if at := l.GetAddress().GetSocketAddress(); at != nil {
			at.Address = a.ip
		}
		if at := l.GetAddress().GetPipe(); at != nil {
			at.Path += a.suffix
		}
		var err error
		if res.Resource, err = anypb.New(&l); err != nil {
			return err
		}
	}
	return nil
}
