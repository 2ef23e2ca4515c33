package xds

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/modelgate/modelgate/envoy"
)

// Bounds of a session of the Realtime API. OpenAI ends a session after 60 minutes by itself, with a reason. A session
// may be silent while its user is, but most clients send pings.
const (
	sessionTime = 65 * time.Minute
	sessionIdle = 15 * time.Minute
)

// sessionEntry is the entry route of the Realtime API. The upgrade is allowed here and on the route of the plan, so
// that no other path of the listener has it, and the listener does not change. What the client sends on the upgraded
// connection is no body whose size is limited.
func sessionEntry() *routev3.Route {
	r := entry(&routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: envoy.PathRealtime}})
	r.TypedPerFilterConfig = map[string]*anypb.Any{sizeLimitFilter: pack(&routev3.FilterConfig{Disabled: true})}
	r.GetRoute().UpgradeConfigs = webSocket()
	return r
}

// sessionRoute is the route of a planned session. Envoy tries further providers until one has upgraded the connection.
func sessionRoute() *routev3.Route {
	retries := retryPolicy(sessionIdle)
	retries.PerTryIdleTimeout = nil
	r := onward(envoy.RouteSession, envoy.KindSession, retries, sessionIdle)
	r.GetRoute().IdleTimeout = durationpb.New(sessionIdle)
	r.GetRoute().MaxStreamDuration.MaxStreamDuration = durationpb.New(sessionTime)
	r.GetRoute().UpgradeConfigs = webSocket()
	return r
}

func webSocket() []*routev3.RouteAction_UpgradeConfig {
	return []*routev3.RouteAction_UpgradeConfig{{UpgradeType: "websocket"}}
}

// sessionMode is the mode of a session: what the client sends passes without being shown, because a request that waits
// for a body is never upgraded, and what the provider sends is read, and can be ended.
func sessionMode() *extprocv3.ProcessingMode {
	return processingMode(extprocv3.ProcessingMode_SEND, extprocv3.ProcessingMode_NONE,
		extprocv3.ProcessingMode_SEND, extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED)
}

// sessionCluster returns the cluster of all attempts to open a session at a provider. The credential is set by the
// upstream filter alone.
func sessionCluster(t target, name string, strip []string) *clusterv3.Cluster {
	o := protocolOptions(t, []*hcmv3.HttpFilter{
		httpFilter("mg.strip", removeHeaders(strip)),
		httpFilter(retryExtProcFilter, upstreamExtProc()),
		httpFilter("envoy.filters.http.upstream_codec", &codecv3.UpstreamCodec{}),
	})
	useHTTP1(o)
	c := cluster(t, name, nil)
	c.TypedExtensionProtocolOptions["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"] = pack(o)
	return c
}
