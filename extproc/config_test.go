package extproc

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// A controlPlane is the other end of the configuration's stream, in the test's hands.
type controlPlane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams chan *controlStream
}

type controlStream struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	end chan error
}

func (c *controlPlane) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	cs := &controlStream{s, make(chan error)}
	select {
	case c.streams <- cs:
	case <-s.Context().Done():
		return nil
	}
	select {
	case err := <-cs.end:
		return err
	case <-s.Context().Done():
		return nil
	}
}

// send gives the client resources and removals of one type, and returns its acknowledgement.
func (s *controlStream) send(t *testing.T, revision string, of proto.Message, removed []string,
	resources ...proto.Message) *discoveryv3.DeltaDiscoveryRequest {
	t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: xdsclient.TypeURL(of), SystemVersionInfo: revision, Nonce: revision,
		RemovedResources: removed}
	for _, m := range resources {
		packed, err := anypb.New(m)
		require.NoError(t, err)
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: m.(interface{ GetName() string }).GetName(),
			Version: revision, Resource: packed})
	}
	require.NoError(t, s.Send(r))
	ack, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, revision, ack.GetResponseNonce())
	return ack
}

// subscriptions reads what the client asks for when a stream begins, by type.
func (s *controlStream) subscriptions(t *testing.T) (map[string]*discoveryv3.DeltaDiscoveryRequest, *corev3.Node) {
	t.Helper()
	asked := map[string]*discoveryv3.DeltaDiscoveryRequest{}
	var node *corev3.Node
	for range 10 {
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

func startConfigClient(t *testing.T) (*configClient, *controlPlane) {
	dir, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	plane := &controlPlane{streams: make(chan *controlStream)}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, plane)
	go func() { _ = server.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	c := newConfigClient(Options{XDS: conn, NodeID: "test", Vendors: all.Providers(), Logger: zaptest.NewLogger(t),
		Registerer: prometheus.NewRegistry()})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		c.run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		_ = conn.Close()
		server.Stop()
	})
	return c, plane
}

func testKey(name string, b byte) *configv1.Key {
	hash := make([]byte, 32)
	hash[0] = b
	return &configv1.Key{Name: name, Hash: hash}
}

func resolved(name, vendor string) *configv1.ResolvedProvider {
	return &configv1.ResolvedProvider{Name: name, Provider: &configv1.Provider{Name: name, Vendor: vendor},
		Credential: "c"}
}

func TestConfigFollowsTheControlPlane(t *testing.T) {
	c, plane := startConfigClient(t)
	s := <-plane.streams
	asked, node := s.subscriptions(t)
	require.Len(t, asked, 10)
	require.Equal(t, envoy.RoleExtProc, node.GetCluster())

	s.send(t, "1", &configv1.Key{}, nil, testKey("k1", 1), testKey("k2", 2))
	s.send(t, "1", &configv1.ResolvedProvider{}, nil, resolved("a", "openai"))
	s.send(t, "1", &configv1.Model{}, nil)
	s.send(t, "1", &configv1.Route{}, nil, &configv1.Route{Name: "r", PathPrefix: "/v1/ocr", Provider: "a"})
	s.send(t, "1", &configv1.Catalog{}, nil)
	s.send(t, "1", &configv1.Listing{}, nil)
	s.send(t, "1", &configv1.Organization{}, nil, &configv1.Organization{Name: "acme"})
	s.send(t, "1", &configv1.Project{}, nil, &configv1.Project{Name: "acme/web"})
	s.send(t, "1", &rlsv3.RateLimitConfig{}, nil, &rlsv3.RateLimitConfig{Name: "users"})
	require.Nil(t, c.current.Load(), "not before every type has come")
	s.send(t, "1", &configv1.Settings{}, nil, &configv1.Settings{Name: "default", KeyPepper: []byte("p")})
	first := c.current.Load()
	require.Equal(t, 2, first.Keyring.Len())
	require.Len(t, first.Providers, 1)
	require.Contains(t, first.Organizations, "acme")
	require.Contains(t, first.Projects, "acme/web")
	require.Contains(t, first.RateLimits, "users")

	s.send(t, "2", &configv1.Key{}, []string{"k1"}, testKey("k2", 3))
	second := c.current.Load()
	require.Equal(t, 1, second.Keyring.Len())
	require.Nil(t, second.Keyring.ByName("k1"))
	require.Equal(t, "k2", second.Keyring.ByHash(auth.Hash{3}, time.Now()).Name)
	require.Nil(t, second.Keyring.ByHash(auth.Hash{2}, time.Now()), "k2 has another hash")
	require.Equal(t, 2, first.Keyring.Len(), "what exchanges hold does not change")
	require.NotNil(t, first.Keyring.ByName("k1"))
	nack := s.send(t, "2", &configv1.Key{}, nil, &configv1.Key{Name: "k3", Hash: []byte("short")})
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "k3: hash: has 5 bytes")
	require.Same(t, second.Keyring, c.current.Load().Keyring)
	require.Same(t, first.Providers["a"], second.Providers["a"])

	nack = s.send(t, "3", &configv1.ResolvedProvider{}, nil, resolved("b", "nobody"), resolved("c", "anthropic"))
	require.Contains(t, nack.GetErrorDetail().GetMessage(), `b: unknown vendor "nobody"`)
	require.Contains(t, c.current.Load().Providers, "c", "its sibling is taken")
	require.Contains(t, c.current.Load().Providers, "a")

	s.send(t, "3", &configv1.Listing{}, nil, &configv1.Listing{Name: "a"}, &configv1.Listing{Name: "c"})
	s.send(t, "3", &configv1.Listing{}, []string{"c"})
	require.Equal(t, []string{"a"}, slices.Collect(maps.Keys(c.current.Load().Listings)))
	require.Empty(t, first.Listings)

	s.send(t, "3", &configv1.Organization{}, []string{"acme"})
	require.Empty(t, c.current.Load().Organizations)
	require.Len(t, first.Organizations, 1)

	s.send(t, "4", &configv1.Route{}, []string{"r"}, &configv1.Route{Name: "other", PathPrefix: "/x", Provider: "a"})
	require.Len(t, first.Routes, 1)
	require.NotEqual(t, first.Routes, c.current.Load().Routes)
	builtin := first.Catalog.Facts("openai", "no-such-model").GetCapabilities().GetMaxOutputTokens()
	most := builtin + 1
	s.send(t, "5", &configv1.Catalog{}, nil, &configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{
		{Models: []string{"no-such-*"}, Capabilities: &configv1.Capabilities{MaxOutputTokens: &most}}}})
	require.Equal(t, most, c.current.Load().Catalog.Facts("openai",
		"no-such-model").GetCapabilities().GetMaxOutputTokens())
	s.send(t, "6", &configv1.Catalog{}, []string{"default"})
	require.Equal(t, builtin, c.current.Load().Catalog.Facts("openai",
		"no-such-model").GetCapabilities().GetMaxOutputTokens())
}

func TestConfigSurvivesTheControlPlane(t *testing.T) {
	c, plane := startConfigClient(t)
	s := <-plane.streams
	s.subscriptions(t)
	s.send(t, "1", &configv1.Settings{}, nil, &configv1.Settings{Name: "default", KeyPepper: []byte("p")})
	s.send(t, "1", &configv1.ResolvedProvider{}, nil)
	s.send(t, "1", &configv1.Model{}, nil)
	s.send(t, "1", &configv1.Route{}, nil)
	s.send(t, "1", &configv1.Catalog{}, nil)
	s.send(t, "1", &configv1.Listing{}, nil)
	s.send(t, "1", &configv1.Organization{}, nil, &configv1.Organization{Name: "acme"})
	s.send(t, "1", &configv1.Project{}, nil, &configv1.Project{Name: "acme/web"})
	s.send(t, "1", &rlsv3.RateLimitConfig{}, nil, &rlsv3.RateLimitConfig{Name: "users"})
	s.send(t, "1", &configv1.Key{}, nil, testKey("k1", 1))
	before := c.current.Load()
	close(s.end)

	s = <-plane.streams // it comes back by itself
	require.Same(t, before, c.current.Load())
	asked, _ := s.subscriptions(t)
	require.Equal(t, map[string]string{"k1": "1"}, asked[xdsclient.TypeURL(&configv1.Key{})].GetInitialResourceVersions(),
		"only what changed need be sent")
	s.send(t, "2", &configv1.Key{}, []string{"k1"})
	require.Zero(t, c.current.Load().Keyring.Len())
}
