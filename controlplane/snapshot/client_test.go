package snapshot

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// Types that the tests use, shortly.
var (
	clusters  = xds.TypeURL(&clusterv3.Cluster{})
	providers = xds.TypeURL(&configv1.ResolvedProvider{})
	keys      = xds.TypeURL(&configv1.Key{})

	jobsProviders = xds.TypeURL(&configv1.Provider{})
)

// providerOf returns what is built from a provider; two with different versions differ in everything.
func providerOf(name string, version int) []xds.Resource {
	owner := xds.Object{Kind: xds.KindProvider, Name: name}
	c := func(name string) xds.Resource {
		return xds.Resource{Role: envoy.RoleEnvoy, Type: clusters, Name: name, Owner: owner, Message: &clusterv3.Cluster{
			Name: name, ConnectTimeout: durationpb.New(time.Duration(version) * time.Second),
		}}
	}
	return []xds.Resource{
		c(envoy.FirstCluster(name)),
		c(envoy.RetryCluster(name)),
		{Role: envoy.RoleExtProc, Type: providers, Name: name, Owner: owner, Message: &configv1.ResolvedProvider{
			Name: name, Provider: &configv1.Provider{Name: name,
				Timeouts: &configv1.Timeouts{Connect: durationpb.New(time.Duration(version))}},
		}},
	}
}

// jobsProviderOf returns what the job service is told about a provider.
func jobsProviderOf(name string, version int) []xds.Resource {
	return []xds.Resource{{
		Role: envoy.RoleJobs, Type: jobsProviders, Name: name, Owner: xds.Object{Kind: xds.KindProvider, Name: name},
		Message: &configv1.Provider{Name: name,
			Timeouts: &configv1.Timeouts{Connect: durationpb.New(time.Duration(version))}},
	}}
}

// keysOf returns keys of a project, as an update has them.
func keysOf(project string, names ...string) map[string]*configv1.Key {
	out := map[string]*configv1.Key{}
	for _, name := range names {
		out[name] = &configv1.Key{Name: name, Project: project}
	}
	return out
}

// objectsOf gathers resources by their owners.
func objectsOf(rs []xds.Resource) []*xds.Built {
	var all []*xds.Built
	for _, r := range rs {
		i := slices.IndexFunc(all, func(b *xds.Built) bool { return b.Object == r.Owner })
		if i < 0 {
			i, all = len(all), append(all, &xds.Built{Object: r.Owner})
		}
		all[i].Resources = append(all[i].Resources, r)
	}
	return all
}

// update joins what objects are built to.
func update(revision int64, objects ...[]xds.Resource) Update {
	return Update{Revision: revision, Objects: objectsOf(slices.Concat(objects...))}
}

// A bench is a Publisher that runs, and what it leaves behind.
type bench struct {
	*Publisher
	ctx     context.Context
	service *service
	metrics *prometheus.Registry
	logs    *observer.ObservedLogs
}

// newBench starts a Publisher that ends with the test. In a bubble of synctest it ends with the bubble.
func newBench(t *testing.T) *bench {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	b := &bench{metrics: prometheus.NewRegistry(), logs: logs}
	var err error
	b.Publisher, err = New(Options{Logger: zap.New(core), Registerer: b.metrics})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	b.ctx, b.service = ctx, b.Publisher.service(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return b
}

// bubble runs a test with its own time, in which nothing that happens is missed: settle returns when all is quiet.
func bubble(t *testing.T, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t)) })
}

func (b *bench) nacks(t *testing.T) (total float64) {
	t.Helper()
	families, err := b.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "modelgate_xds_nacks_total" {
			for _, m := range f.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

// A peer is a client, as far as the protocol goes. It keeps what it has accepted.
type peer struct {
	t         *testing.T
	node      *corev3.Node
	toServer  chan *discoveryv3.DeltaDiscoveryRequest
	toClient  chan *discoveryv3.DeltaDiscoveryResponse
	ended     chan error
	cancel    context.CancelFunc
	has       map[string]string // versions by name
	responses int
}

// connect opens a stream without a network, which a bubble of synctest could not have.
func (b *bench) connect(t *testing.T, role string) *peer {
	t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	p := &peer{
		t:        t,
		node:     &corev3.Node{Id: "test", Cluster: role},
		toServer: make(chan *discoveryv3.DeltaDiscoveryRequest, 100),
		toClient: make(chan *discoveryv3.DeltaDiscoveryResponse, 100),
		ended:    make(chan error, 1),
		cancel:   cancel,
		has:      map[string]string{},
	}
	go func() { p.ended <- b.service.DeltaAggregatedResources(&memoryStream{ctx: ctx, peer: p}) }()
	t.Cleanup(cancel)
	return p
}

// memoryStream is the server's end of a stream.
type memoryStream struct {
	grpc.ServerStream
	ctx  context.Context
	peer *peer
}

func (s *memoryStream) Context() context.Context { return s.ctx }

func (s *memoryStream) Send(r *discoveryv3.DeltaDiscoveryResponse) error {
	s.peer.toClient <- r
	return nil
}

func (s *memoryStream) Recv() (*discoveryv3.DeltaDiscoveryRequest, error) {
	select {
	case r := <-s.peer.toServer:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// send sends a request and returns when the server has handled it. The first request names the node.
func (p *peer) send(r *discoveryv3.DeltaDiscoveryRequest) {
	r.Node, p.node = p.node, nil
	p.toServer <- r
	synctest.Wait()
}

// subscribe asks for all resources of a type, as Envoy does for clusters and listeners.
func (p *peer) subscribe(typeURL string) {
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL})
}

// next returns the next response. In a bubble it fails if none is to come.
func (p *peer) next() *discoveryv3.DeltaDiscoveryResponse {
	p.t.Helper()
	select {
	case r := <-p.toClient:
		p.responses++
		return r
	case <-time.After(time.Hour):
		p.t.Fatal("no response came")
		return nil
	}
}

// quiet fails if a response has come or is under way.
func (p *peer) quiet() {
	p.t.Helper()
	synctest.Wait()
	select {
	case r := <-p.toClient:
		p.t.Fatalf("a response came: %s %v", r.GetTypeUrl(), names(r))
	default:
	}
}

func (p *peer) ack(r *discoveryv3.DeltaDiscoveryResponse) {
	for _, i := range r.GetResources() {
		p.has[i.GetName()] = i.GetVersion()
	}
	for _, name := range r.GetRemovedResources() {
		delete(p.has, name)
	}
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

func (p *peer) nack(r *discoveryv3.DeltaDiscoveryResponse, message string) {
	p.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: message},
	})
}

// takeAll acknowledges until nothing more comes.
func (p *peer) takeAll() {
	for {
		synctest.Wait()
		select {
		case r := <-p.toClient:
			p.responses++
			p.ack(r)
		default:
			return
		}
	}
}

// holds returns the names of what the client has accepted, sorted.
func (p *peer) holds() []string { return slices.Sorted(maps.Keys(p.has)) }

// names returns the names of the resources in a response, sorted.
func names(r *discoveryv3.DeltaDiscoveryResponse) []string {
	out := make([]string, 0, len(r.GetResources()))
	for _, i := range r.GetResources() {
		out = append(out, i.GetName())
	}
	slices.Sort(out)
	return out
}
