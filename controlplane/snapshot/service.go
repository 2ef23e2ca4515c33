package snapshot

import (
	"context"
	"maps"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/delta/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// ServerOptions returns the options of a gRPC server for xDS. Envoy pings every 30 s, and a server with the default
// policy (at most every 5 minutes) would close the connection. A client that reconnects lists all its resources, which
// can exceed the default of 4 MiB.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(64 << 20),
	}
}

// Register registers delta ADS, and no other xDS service, on s. The streams end with ctx. It must be called once,
// because the library numbers streams per registration.
func (p *Publisher) Register(ctx context.Context, s *grpc.Server) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, p.service(ctx))
}

func (p *Publisher) service(ctx context.Context) *service {
	// The legacy wildcard stays on. Without it, Envoy's subscriptions to clusters and listeners would be empty.
	return &service{delta: delta.NewServer(ctx, p.cache, callbacks{p})}
}

// service is aggregated discovery without the state-of-the-world variant.
type service struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	delta delta.Server
}

// DeltaAggregatedResources serves one client.
func (s *service) DeltaAggregatedResources(
	stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	return s.delta.DeltaStreamHandler(stream, resource.AnyType)
}

// callbacks track what clients are sent and what they answer. Each stream calls them from one goroutine.
type callbacks struct{ p *Publisher }

var _ delta.Callbacks = callbacks{}

// OnDeltaStreamOpen records a client, whose role is not known yet.
func (c callbacks) OnDeltaStreamOpen(ctx context.Context, stream int64, _ string) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.clients[stream] = &client{certificate: shown(ctx), subs: map[string]*subscription{}}
	return nil
}

// OnDeltaStreamClosed removes a client.
func (c callbacks) OnDeltaStreamClosed(stream int64, _ *corev3.Node) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	gone := c.p.clients[stream]
	delete(c.p.clients, stream)
	if gone == nil || gone.role == "" {
		return
	}
	c.p.metrics.clients.WithLabelValues(gone.role).Dec()
	c.p.state.disconnect(gone.role)
	c.p.hear()
	c.p.dirty = true
	c.p.signal()
}

// OnStreamDeltaRequest admits a client by its role, and handles its answer to the last response.
func (c callbacks) OnStreamDeltaRequest(stream int64, r *discoveryv3.DeltaDiscoveryRequest) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	from := c.p.clients[stream]
	if err := c.p.admit(from, r.GetNode()); err != nil {
		return err
	}
	c.p.hear()
	k := kind{from.role, r.GetTypeUrl()}
	sub := from.subscription(k.typ)
	sub.ask(r.GetResourceNamesSubscribe(), r.GetResourceNamesUnsubscribe())
	if isKeys(k.role, k.typ) {
		c.p.answeredKeys(from, k, r)
		return nil
	}
	if versions := r.GetInitialResourceVersions(); len(versions) > 0 {
		maps.Copy(sub.settled, versions)
		c.p.acknowledge(k, versions)
	}
	response, ok := sub.sent[r.GetResponseNonce()]
	if !ok {
		return nil
	}
	delete(sub.sent, r.GetResponseNonce())
	from.state.answered(k.typ, r.GetErrorDetail().GetMessage(), c.p.published)
	if e := r.GetErrorDetail(); e != nil {
		if c.p.refuse(from, k, response, e.GetMessage()) {
			sub.unsettle(response)
			return nil
		}
		sub.settle(response) // this client continues without it
		return nil
	}
	sub.settle(response)
	c.p.acknowledge(k, response.versions)
	return nil
}

// OnStreamDeltaResponse records a response that is sent to a client.
func (c callbacks) OnStreamDeltaResponse(stream int64, _ *discoveryv3.DeltaDiscoveryRequest,
	r *discoveryv3.DeltaDiscoveryResponse) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	to := c.p.clients[stream]
	to.state.sent(c.p.published)
	response := sent{revision: revisionOf(r.GetSystemVersionInfo())}
	if !isKeys(to.role, r.GetTypeUrl()) { // the cache of keys records its own
		response.versions, response.removed = make(map[string]string, len(r.GetResources())), r.GetRemovedResources()
		for _, i := range r.GetResources() {
			response.versions[i.GetName()] = i.GetVersion()
		}
	}
	to.subscription(r.GetTypeUrl()).sent[r.GetNonce()] = response
}

// answeredKeys handles a client's answer about keys. If it refuses some, it continues without them. The caller holds
// the lock.
func (p *Publisher) answeredKeys(from *client, k kind, r *discoveryv3.DeltaDiscoveryRequest) {
	if r.GetResponseNonce() == "" {
		return
	}
	sub := from.subscription(k.typ)
	if response, ok := sub.sent[r.GetResponseNonce()]; ok {
		delete(sub.sent, r.GetResponseNonce())
		sub.settle(response)
	}
	refused := r.GetErrorDetail().GetMessage()
	from.state.answered(k.typ, refused, p.published)
	if r.GetErrorDetail() != nil {
		p.refuse(from, k, sent{}, refused)
	}
}

// admit sets the role of a client, once. The caller holds the lock.
func (p *Publisher) admit(c *client, node *corev3.Node) error {
	if c.role != "" {
		if node != nil && node.GetCluster() != c.role {
			return status.Error(codes.PermissionDenied, "a stream cannot change its role")
		}
		return nil
	}
	switch role := node.GetCluster(); role {
	case envoy.RoleEnvoy, envoy.RoleExtProc, envoy.RoleJobs:
		if !c.has(p.names[role]) {
			p.log.Warn("a client of xDS was refused: its certificate has not the name of its role",
				zap.String("node", node.GetId()),
				zap.String("role", role), zap.String("name", p.names[role]))
			return status.Errorf(codes.PermissionDenied, "the certificate is not for %s, as that of a %s must be",
				p.names[role], role)
		}
		c.role, c.node, c.state = role, node.GetId(), newClientState(node, time.Now())
		p.state.connect(role)
		p.metrics.clients.WithLabelValues(role).Inc()
		return nil
	default:
		p.log.Warn("a client of xDS was refused: its node.cluster names no role", zap.String("node", node.GetId()),
			zap.String("cluster", role))
		return status.Errorf(codes.PermissionDenied, "node.cluster must be %s, %s or %s", envoy.RoleEnvoy, envoy.RoleExtProc,
			envoy.RoleJobs)
	}
}

// acknowledge records that a client has taken resources. The caller holds the lock.
func (p *Publisher) acknowledge(k kind, versions map[string]string) {
	if p.state.acknowledge(k, versions) {
		p.dirty = true
	}
	p.signal()
}

// refuse records that a client has refused a response, and reports whether it will get another one instead. The caller
// holds the lock.
func (p *Publisher) refuse(c *client, k kind, r sent, message string) bool {
	blamed, changed := p.state.refuse(k, r.versions, message)
	p.metrics.nacks.WithLabelValues(k.role, k.typ).Inc()
	p.log.Error("a client has refused configuration", zap.String("role", k.role), zap.String("node", c.node),
		zap.String("type", k.typ), zap.Int64("revision", p.state.revision), zap.Strings("objects", labels(blamed)),
		zap.String("message", shorten(message)))
	if changed {
		p.dirty = true
	}
	p.signal()
	return changed
}

func labels(objects []xds.Object) []string {
	out := make([]string, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.String())
	}
	return out
}

// roleHash makes the library keep one snapshot per role.
type roleHash struct{}

// ID returns the client's role. Only admitted clients get here.
func (roleHash) ID(node *corev3.Node) string { return node.GetCluster() }

// nopLogger discards the library's log: the callbacks log what matters.
type nopLogger struct{}

// Debugf does nothing.
func (nopLogger) Debugf(string, ...any) {}

// Infof does nothing.
func (nopLogger) Infof(string, ...any) {}

// Warnf does nothing.
func (nopLogger) Warnf(string, ...any) {}

// Errorf does nothing.
func (nopLogger) Errorf(string, ...any) {}
