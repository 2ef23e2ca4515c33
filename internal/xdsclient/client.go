// Package xdsclient keeps a process's copy of the configuration equal to the control plane's: it is a client of
// delta xDS for the gateway's own resources.
//
// What has been published is read by others from then on. A Handler's Fork copies what its Set
// and Remove are about to change.
package xdsclient

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// The pause before the control plane is asked again after a stream has ended. It grows while nothing comes. Until
// then, the last configuration holds.
const (
	minPause = 250 * time.Millisecond
	maxPause = 4 * time.Second
)

// maxResponse bounds one response of the control plane, in bytes: a hundred thousand keys are about 30 MB.
const maxResponse = 256 << 20

// Options configure a Client. All are required.
type Options struct {
	// Conn is a connection to the control plane.
	Conn grpc.ClientConnInterface
	// NodeID names this process to the control plane, and Role says what it is: one of package envoy's.
	NodeID, Role string
	// Types are the requested types.
	Types []*Type
	// Publish is called after each response, once every type has come. It names the revision of the configuration.
	Publish    func(revision string)
	Logger     *zap.Logger
	Registerer prometheus.Registerer
}

// A Client follows the control plane.
type Client struct {
	client  discoveryv3.AggregatedDiscoveryServiceClient
	node    *corev3.Node
	types   []*Type
	publish func(revision string)
	log     *zap.Logger
	metrics *metrics
}

// A Type is one type of resource and what is done with it.
type Type struct {
	url      string
	new      func() proto.Message
	set      func(name string, m proto.Message) error
	remove   func(name string)
	fork     func()
	versions versions
	seen     bool // the control plane has answered for it
}

// A Handler takes the resources of one type. All is called by Run's goroutine alone.
type Handler[M proto.Message] struct {
	// Set takes a resource that is new or was changed, and keeps it. An error refuses it, which the control plane takes
	// for a fault of the object as a whole.
	Set func(name string, m M) error
	// Remove drops a resource, which may be one that Set has refused.
	Remove func(name string)
	// Fork is called before the others, once for each response. It may be nil.
	Fork func()
}

// Of returns the type of the resources that are messages of M.
func Of[M proto.Message](h Handler[M]) *Type {
	var none M
	t := &Type{
		url:      TypeURL(none),
		versions: newVersions(),
		new:      func() proto.Message { return none.ProtoReflect().New().Interface() },
		set:      func(name string, m proto.Message) error { return h.Set(name, m.(M)) },
		remove:   h.Remove,
		fork:     h.Fork,
	}
	if t.fork == nil {
		t.fork = func() {}
	}
	return t
}

// TypeURL returns the type URL of resources that are messages of m's type.
func TypeURL(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

// Fork returns a copy that can be changed while others read the original, which may be nil.
func Fork[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return make(map[K]V)
	}
	return maps.Clone(m)
}

// version returns the version of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// New returns a Client that does nothing before Run.
func New(o Options) *Client {
	return &Client{
		client: discoveryv3.NewAggregatedDiscoveryServiceClient(o.Conn),
		node: &corev3.Node{
			Id: o.NodeID, Cluster: o.Role, UserAgentName: "modelgate",
			UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: version()},
		},
		types:   o.Types,
		publish: o.Publish,
		log:     o.Logger,
		metrics: newMetrics(o.Registerer, o.Role),
	}
}

// Run follows the control plane until ctx ends. It must be called once.
func (c *Client) Run(ctx context.Context) {
	pause := minPause
	for {
		err := c.follow(ctx, func() {
			pause = minPause
			c.metrics.connected.Set(1)
			c.metrics.received.SetToCurrentTime()
		})
		c.metrics.connected.Set(0)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("no stream to the control plane; keeping the last configuration", zap.Duration("retry_in", pause),
			zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// follow takes what the control plane serves until the stream ends, and calls received whenever something came.
func (c *Client) follow(ctx context.Context, received func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.DeltaAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(maxResponse))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	for i, t := range c.types {
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.url, ResourceNamesSubscribe: []string{"*"},
			InitialResourceVersions: t.versions.all()}
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
			c.log.Error("configuration refused", zap.String("type", in.GetTypeUrl()),
				zap.String("revision", in.GetSystemVersionInfo()), zap.Error(err))
			ack.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
		}
		if err := stream.Send(ack); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
}

// apply takes what can be used of a response, has it published, and reports what cannot.
func (c *Client) apply(in *discoveryv3.DeltaDiscoveryResponse) error {
	var t *Type
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
	t.fork()
	for _, name := range in.GetRemovedResources() {
		t.remove(name)
		t.versions.remove(name)
	}
	var refused error
	for i, r := range in.GetResources() {
		if err := t.set(r.GetName(), messages[i]); err != nil {
			refused = fmt.Errorf("%s: %w", r.GetName(), err)
			continue
		}
		t.versions.set(r.GetName(), r.GetVersion())
	}
	t.seen = true
	for _, t := range c.types {
		if !t.seen {
			return refused
		}
	}
	c.publish(in.GetSystemVersionInfo())
	return refused
}
