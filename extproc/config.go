package extproc

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
)

// The pause before the control plane is asked again after a stream has ended. It grows while nothing comes. Until then,
// exchanges are decided by the last configuration.
const (
	minPause = 250 * time.Millisecond
	maxPause = 4 * time.Second
)

// maxConfig bounds one response of the control plane: a hundred thousand keys are about 30 MB.
const maxConfig = 256 << 20

// A configClient keeps the configuration that exchanges are decided by equal to what the control plane serves: it is a
// delta xDS client for resources of our own.
type configClient struct {
	client  discoveryv3.AggregatedDiscoveryServiceClient
	node    *corev3.Node
	vendors map[string]provider.Provider
	log     *zap.Logger

	current atomic.Pointer[exchange.Config] // nil until every type has come once

	// What follows is used by run's goroutine alone.
	types    []*resourceType
	building exchange.Config // its maps are copied before they change
}

// A resourceType is one type of resource and what is done with it.
type resourceType struct {
	url      string
	versions map[string]string
	seen     bool // the control plane has answered for it
	new      func() proto.Message
	set      func(name string, m proto.Message) error
	remove   func(name string)
	fork     func() // copies what set and remove change
}

func newConfigClient(o Options) *configClient {
	c := &configClient{
		client:  discoveryv3.NewAggregatedDiscoveryServiceClient(o.XDS),
		node:    &corev3.Node{Id: o.NodeID, Cluster: envoy.RoleExtProc},
		vendors: o.Vendors,
		log:     o.Logger.Named("config"),
	}
	c.building.Catalog = catalog.New(nil)
	c.types = []*resourceType{c.settings(), c.keys(), c.providers(), c.models(), c.routes(), c.catalog()}
	return c
}

func (c *configClient) settings() *resourceType {
	return &resourceType{
		url:    typeURL(&configv1.Settings{}),
		new:    func() proto.Message { return new(configv1.Settings) },
		fork:   func() {},
		remove: func(string) {},
		set: func(_ string, m proto.Message) error {
			c.building.Hasher = auth.NewHasher(m.(*configv1.Settings).GetKeyPepper())
			return nil
		},
	}
}

func (c *configClient) keys() *resourceType {
	hashes := make(map[string]auth.Hash) // by name, to find what a change or removal replaces
	remove := func(name string) {
		delete(c.building.Keys, hashes[name])
		delete(hashes, name)
	}
	return &resourceType{
		url:    typeURL(&configv1.Key{}),
		new:    func() proto.Message { return new(configv1.Key) },
		fork:   func() { c.building.Keys = fork(c.building.Keys) },
		remove: remove,
		set: func(name string, m proto.Message) error {
			k := m.(*configv1.Key)
			if len(k.GetHash()) != 32 {
				return fmt.Errorf("hash has %d bytes, not 32", len(k.GetHash()))
			}
			remove(name)
			hashes[name] = auth.Hash(k.GetHash())
			c.building.Keys[hashes[name]] = k
			return nil
		},
	}
}

func (c *configClient) providers() *resourceType {
	return &resourceType{
		url:    typeURL(&configv1.ResolvedProvider{}),
		new:    func() proto.Message { return new(configv1.ResolvedProvider) },
		fork:   func() { c.building.Providers = fork(c.building.Providers) },
		remove: func(name string) { delete(c.building.Providers, name) },
		set: func(name string, m proto.Message) error {
			r := m.(*configv1.ResolvedProvider)
			vendor, ok := c.vendors[r.GetProvider().GetVendor()]
			if !ok {
				return fmt.Errorf("unknown vendor %q", r.GetProvider().GetVendor())
			}
			p, err := exchange.NewProvider(r, vendor)
			if err != nil {
				return err
			}
			c.building.Providers[name] = p
			return nil
		},
	}
}

func (c *configClient) models() *resourceType {
	return &resourceType{
		url:    typeURL(&configv1.Model{}),
		new:    func() proto.Message { return new(configv1.Model) },
		fork:   func() { c.building.Models = fork(c.building.Models) },
		remove: func(name string) { delete(c.building.Models, name) },
		set: func(name string, m proto.Message) error {
			c.building.Models[name] = m.(*configv1.Model)
			return nil
		},
	}
}

func (c *configClient) routes() *resourceType {
	configured := make(map[string]*configv1.Route)
	return &resourceType{
		url:  typeURL(&configv1.Route{}),
		new:  func() proto.Message { return new(configv1.Route) },
		fork: func() {},
		remove: func(name string) {
			delete(configured, name)
			c.building.Routes = exchange.NewRoutes(configured)
		},
		set: func(name string, m proto.Message) error {
			configured[name] = m.(*configv1.Route)
			c.building.Routes = exchange.NewRoutes(configured)
			return nil
		},
	}
}

func (c *configClient) catalog() *resourceType {
	return &resourceType{
		url:    typeURL(&configv1.Catalog{}),
		new:    func() proto.Message { return new(configv1.Catalog) },
		fork:   func() {},
		remove: func(string) { c.building.Catalog = catalog.New(nil) },
		set: func(_ string, m proto.Message) error {
			c.building.Catalog = catalog.New(m.(*configv1.Catalog))
			return nil
		},
	}
}

func typeURL(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

// fork returns a copy that can be changed while exchanges read the original.
func fork[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return make(map[K]V)
	}
	return maps.Clone(m)
}

// run follows the control plane until ctx ends.
func (c *configClient) run(ctx context.Context) {
	pause := minPause
	for {
		err := c.follow(ctx, func() { pause = minPause })
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("no stream to the control plane; keeping the last configuration", zap.Duration("retry_in", pause), zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// follow takes what the control plane serves until the stream ends, and calls received whenever something came.
func (c *configClient) follow(ctx context.Context, received func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.DeltaAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(maxConfig))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for i, t := range c.types {
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.url, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: t.versions}
		if i == 0 {
			r.Node = c.node
		}
		if err := stream.Send(r); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	for {
		in, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		received()
		ack := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: in.GetTypeUrl(), ResponseNonce: in.GetNonce()}
		if err := c.apply(in); err != nil {
			c.log.Error("configuration refused", zap.String("type", in.GetTypeUrl()), zap.String("revision", in.GetSystemVersionInfo()), zap.Error(err))
			ack.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
		}
		if err := stream.Send(ack); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
}

// apply takes what can be used of a response, publishes what it leads to, and reports what cannot.
func (c *configClient) apply(in *discoveryv3.DeltaDiscoveryResponse) error {
	var t *resourceType
	for _, candidate := range c.types {
		if candidate.url == in.GetTypeUrl() {
			t = candidate
		}
	}
	if t == nil {
		return fmt.Errorf("unasked type %q", in.GetTypeUrl())
	}
	messages := make([]proto.Message, len(in.GetResources()))
	for i, r := range in.GetResources() {
		messages[i] = t.new()
		if err := r.GetResource().UnmarshalTo(messages[i]); err != nil {
			return fmt.Errorf("%s: %w", r.GetName(), err)
		}
	}
	if t.versions == nil {
		t.versions = make(map[string]string)
	}
	t.fork()
	for _, name := range in.GetRemovedResources() {
		t.remove(name)
		delete(t.versions, name)
	}
	var refused error
	for i, r := range in.GetResources() {
		if err := t.set(r.GetName(), messages[i]); err != nil {
			refused = fmt.Errorf("%s: %w", r.GetName(), err)
			continue
		}
		t.versions[r.GetName()] = r.GetVersion()
	}
	t.seen = true
	c.publish(in.GetSystemVersionInfo())
	return refused
}

func (c *configClient) publish(revision string) {
	for _, t := range c.types {
		if !t.seen {
			return
		}
	}
	if c.building.Hasher == nil {
		return // without the pepper no key can be checked
	}
	next := c.building
	if c.current.Swap(&next) == nil {
		c.log.Info("configuration received", zap.String("revision", revision),
			zap.Int("providers", len(next.Providers)), zap.Int("models", len(next.Models)), zap.Int("keys", len(next.Keys)))
	}
}
