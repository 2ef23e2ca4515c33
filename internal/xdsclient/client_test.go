package xdsclient_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// A plane is the other end, in the test's hands.
type plane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams chan *stream
}

type stream struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	end chan error
}

func (p *plane) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	one := &stream{s, make(chan error)}
	select {
	case p.streams <- one:
	case <-s.Context().Done():
		return nil
	}
	select {
	case err := <-one.end:
		return err
	case <-s.Context().Done():
		return nil
	}
}

// send gives the client a response and returns its acknowledgement.
func (s *stream) send(t *testing.T, revision string, of proto.Message, removed []string,
	resources ...proto.Message) *discoveryv3.DeltaDiscoveryRequest {
	t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: xdsclient.TypeURL(of), SystemVersionInfo: revision, Nonce: revision,
		RemovedResources: removed}
	for _, m := range resources {
		packed, err := anypb.New(m)
		require.NoError(t, err)
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: m.(configv1.Object).GetName(), Version: revision,
			Resource: packed})
	}
	require.NoError(t, s.Send(r))
	ack, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, revision, ack.GetResponseNonce())
	return ack
}

// subscriptions reads what the client asks for when a stream begins.
func (s *stream) subscriptions(t *testing.T, n int) (asked map[string]*discoveryv3.DeltaDiscoveryRequest,
	node *corev3.Node) {
	t.Helper()
	asked = map[string]*discoveryv3.DeltaDiscoveryRequest{}
	for range n {
		r, err := s.Recv()
		require.NoError(t, err)
		require.Equal(t, []string{"*"}, r.GetResourceNamesSubscribe())
		asked[r.GetTypeUrl()] = r
		if r.GetNode() != nil {
			node = r.GetNode()
		}
	}
	return asked, node
}

// start runs a client of the types until the test ends.
func start(t *testing.T, publish func(string), types ...*xdsclient.Type) *plane {
	p, _ := startMeasured(t, publish, types...)
	return p
}

// startMeasured is start with the client's metrics.
func startMeasured(t *testing.T, publish func(string), types ...*xdsclient.Type) (*plane, *prometheus.Registry) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mg") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	p := &plane{streams: make(chan *stream)}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, p)
	go func() { _ = server.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	c := xdsclient.New(xdsclient.Options{Conn: conn, NodeID: "node", Role: "role", Types: types, Publish: publish,
		Logger: zap.NewNop(), Registerer: registry})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		c.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		_ = conn.Close()
		server.Stop()
	})
	return p, registry
}

// webhooks keeps webhooks by name, and refuses the one called "bad".
func webhooks(kept *map[string]string) *xdsclient.Type {
	return xdsclient.Of(xdsclient.Handler[*configv1.Webhook]{
		Fork:   func() { *kept = xdsclient.Fork(*kept) },
		Remove: func(name string) { delete(*kept, name) },
		Set: func(name string, w *configv1.Webhook) error {
			if name == "bad" {
				return errors.New("it is bad")
			}
			(*kept)[name] = w.GetUrl()
			return nil
		},
	})
}

func TestNothingIsPublishedBeforeEveryTypeHasCome(t *testing.T) {
	var kept map[string]string
	published := make(chan string, 10)
	nothing := xdsclient.Of(xdsclient.Handler[*configv1.Model]{Set: func(string, *configv1.Model) error { return nil },
		Remove: func(string) {}})
	p := start(t, func(revision string) { published <- revision }, webhooks(&kept), nothing)
	s := <-p.streams
	asked, node := s.subscriptions(t, 2)
	require.Len(t, asked, 2)
	require.Equal(t, "role", node.GetCluster())
	require.Equal(t, "node", node.GetId())
	s.send(t, "1", &configv1.Webhook{}, nil, &configv1.Webhook{Name: "a", Url: "x"})
	require.Empty(t, published)
	s.send(t, "1", &configv1.Model{}, nil)
	require.Equal(t, "1", <-published)
	before := kept

	s.send(t, "2", &configv1.Webhook{}, []string{"a"}, &configv1.Webhook{Name: "b", Url: "y"})
	require.Equal(t, "2", <-published)
	require.Equal(t, map[string]string{"b": "y"}, kept)
	require.Equal(t, map[string]string{"a": "x"}, before, "what was published does not change")
}

func TestWhatIsRefusedDoesNotTakeItsSiblingsAlong(t *testing.T) {
	var kept map[string]string
	published := make(chan string, 10)
	p := start(t, func(revision string) { published <- revision }, webhooks(&kept))
	s := <-p.streams
	s.subscriptions(t, 1)
	nack := s.send(t, "1", &configv1.Webhook{}, nil, &configv1.Webhook{Name: "bad"}, &configv1.Webhook{Name: "good"})
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "bad: it is bad")
	<-published
	require.Contains(t, kept, "good")
	nack = s.send(t, "2", &configv1.Model{}, nil)
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "unasked type")
	require.Empty(t, published)

	close(s.end)
	s = <-p.streams // it comes back by itself
	asked, _ := s.subscriptions(t, 1)
	versions := asked[xdsclient.TypeURL(&configv1.Webhook{})].GetInitialResourceVersions()
	require.Equal(t, map[string]string{"good": "1"}, maps.Clone(versions), "only what it has")
	require.Contains(t, kept, "good")
	s.send(t, "3", &configv1.Webhook{}, []string{"good"})
	require.Equal(t, "3", <-published)
	require.Empty(t, kept)
}

func TestWhetherTheControlPlaneAnswersIsMeasured(t *testing.T) {
	var kept map[string]string
	p, registry := startMeasured(t, func(string) {}, webhooks(&kept))
	value := func(name string) float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == name {
				require.Equal(t, "role", f.GetMetric()[0].GetLabel()[0].GetValue())
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatalf("%s is not there", name)
		return 0
	}
	s := <-p.streams
	s.subscriptions(t, 1)
	require.Zero(t, value("modelgate_xds_connected"), "a connection is no answer")
	require.Zero(t, value("modelgate_xds_received_timestamp_seconds"))
	before := time.Now()
	s.send(t, "1", &configv1.Webhook{}, nil)
	require.EqualValues(t, 1, value("modelgate_xds_connected"))
	require.GreaterOrEqual(t, value("modelgate_xds_received_timestamp_seconds"), float64(before.Unix()))
	close(s.end)
	<-p.streams // it has come back, and was not answered
	require.Zero(t, value("modelgate_xds_connected"))
}
