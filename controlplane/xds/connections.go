package xds

import (
	"slices"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	sizelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/body_size_limit/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// sizeLimitFilter is the filter of a gateway's listener that bounds bodies, which routes can turn off.
const sizeLimitFilter = "mg.body_size_limit"

// holdFilter is the filter of a gateway's listener that holds what is not planned, and maxHeld how many bytes of it.
// The ext_proc service leaves none.
const (
	holdFilter = "mg.hold"
	maxHeld    = 1 << 20
)

// connections returns how a gateway's listener handles HTTP.
func connections(g *configv1.Gateway) *hcmv3.HttpConnectionManager {
	m := connectionDefaults("edge", routesName(g), extProcFilter)
	m.XffNumTrustedHops = g.GetTrustedHops()
	m.NormalizePath, m.MergeSlashes = wrapperspb.Bool(true), true
	// Before what costs more, so that a flood costs as little as it can.
	flood := discovered(addressLimitName(g), &ratelimitv3.LocalRateLimit{})
	limit := httpFilter(sizeLimitFilter, &sizelimitv3.BodySizeLimit{MaxRequestBytes: wrapperspb.UInt64(g.RequestLimit())})
	extProc, router := m.GetHttpFilters()[0], m.GetHttpFilters()[1]
	// A control plane of the version before does not have it: requests go on where an Envoy comes to one.
	extProc.GetConfigDiscovery().DefaultConfig = pack(drainingExtProc())
	m.HttpFilters = slices.Concat([]*hcmv3.HttpFilter{ownRequestID(), flood}, cors(g),
		[]*hcmv3.HttpFilter{limit, extProc, hold(), router})
	return m
}

// connectionDefaults returns how a listener handles HTTP that asks the ext_proc service.
func connectionDefaults(stats, routes, extProc string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: stats,
		CodecType:  hcmv3.HttpConnectionManager_AUTO,

		// The address of the connection counts, less the trusted hops, and what a client sends as x-envoy-* is removed.
		UseRemoteAddress:             wrapperspb.Bool(true),
		SkipXffAppend:                true,
		PreserveExternalRequestId:    true,
		AlwaysSetRequestIdInResponse: true,

		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		// Names of models have slashes, and SDKs escape them. The ext_proc service alone looks at the path.
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
		StripPortMode:                &hcmv3.HttpConnectionManager_StripAnyHostPort{StripAnyHostPort: true},
		// Providers that are reached over TLS refuse :scheme http.
		SchemeHeaderTransformation: &corev3.SchemeHeaderTransformation{MatchUpstream: true},

		MaxRequestHeadersKb: wrapperspb.UInt32(32),
		// Health checks and old scripts speak HTTP/1.0: they get answers without chunks, and need not name a host.
		HttpProtocolOptions: &corev3.Http1ProtocolOptions{AcceptHttp_10: true, DefaultHostForHttp_10: "modelgate"},
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			IdleTimeout:                  seconds(300),
			MaxHeadersCount:              wrapperspb.UInt32(64),
			HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_REJECT_REQUEST,
		},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        wrapperspb.UInt32(100),
			InitialStreamWindowSize:     wrapperspb.UInt32(64 << 10),
			InitialConnectionWindowSize: wrapperspb.UInt32(1 << 20),
			ConnectionKeepalive:         keepalive(),
		},

		RequestHeadersTimeout: seconds(10),
		// There is no RequestTimeout, which holds for every request: an upload may take an hour on a slow line. The entry
		// routes bound how long a body takes to arrive that is buffered, and on the others the silence within a request.
		StreamIdleTimeout: seconds(300),
		// The default of one second would delay what an HTTP/1 client sees after a reset in mid-stream.
		DelayedCloseTimeout: durationpb.New(100 * time.Millisecond),

		LocalReplyConfig: localReplies(),
		AccessLog:        []*accesslogv3.AccessLog{requestLog()},
		RouteSpecifier:   &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: routes, ConfigSource: ads()}},
		HttpFilters: []*hcmv3.HttpFilter{
			discovered(extProc, &extprocv3.ExternalProcessor{}),
			router(attemptLog()),
		},
	}
}

// requestLog sends the ext_proc service records of what it cannot know: of requests that never reached it, who cut
// those that were cut, and how those ended whose answers it is not shown, for which it asks. Every other request it
// logs by itself, and a record costs both sides as much as a message. Nearly all requests are decided without CEL,
// which costs several times as much.
func requestLog() *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name: "envoy.access_loggers.http_grpc",
		Filter: either(flags(), has(envoy.MetadataLog),
			both(lacks(envoy.MetadataRequest), cel("!response.code_details.startsWith('"+envoy.ImmediateDetailPrefix+"')"))),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig: logTo(envoy.LogRequests, 100*time.Millisecond),
		})},
	}
}

// attemptLog tells the ext_proc service of attempts that a provider has refused for its load: of those that Envoy
// makes again elsewhere it would hear nothing.
func attemptLog() *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name:   "envoy.access_loggers.http_grpc",
		Filter: both(atLeast(429), cel("response.code == 429 || response.code == 503 || response.code == 529")),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(&grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                   logTo(envoy.LogAttempts, 10*time.Millisecond),
			AdditionalResponseHeadersToLog: []string{"retry-after", "retry-after-ms"},
		})},
	}
}

func logTo(name string, flush time.Duration) *grpclogv3.CommonGrpcAccessLogConfig {
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:             name,
		TransportApiVersion: corev3.ApiVersion_V3,
		BufferFlushInterval: durationpb.New(flush),
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: envoy.ClusterExtProc},
		}},
	}
}

// hold keeps requests from the router until they are there whole, where the route says so, as the entries do: of one
// that is refused the ext_proc service takes the body piece by piece, which goes no further, and answers then.
func hold() *hcmv3.HttpFilter {
	filter := httpFilter(holdFilter, held())
	filter.Disabled = true
	return filter
}

func held() *bufferv3.Buffer { return &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(maxHeld)} }

// holding is how the route of a request that arrives turns the filter on, and passing how the one that it goes on by
// turns it off.
func holding() map[string]*anypb.Any {
	return map[string]*anypb.Any{
		holdFilter: pack(&bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Buffer{Buffer: held()}})}
}

func passing() map[string]*anypb.Any {
	return map[string]*anypb.Any{
		holdFilter: pack(&bufferv3.BufferPerRoute{Override: &bufferv3.BufferPerRoute_Disabled{Disabled: true}})}
}

func router(attempts ...*accesslogv3.AccessLog) *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true, UpstreamLog: attempts})
}

// discovered is a filter whose configuration is a resource of its own: a change of it changes no listener.
func discovered(name string, of proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name,
		ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
			ConfigSource: ads(),
			TypeUrls:     []string{TypeURL(of)},
		}}}
}

func httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(config)}}
}

// keepalive finds out that a peer is gone on a connection that carries nothing, such as that of a silent stream.
func keepalive() *corev3.KeepaliveSettings {
	return &corev3.KeepaliveSettings{Interval: seconds(30), Timeout: seconds(10)}
}

func seconds(n int64) *durationpb.Duration { return &durationpb.Duration{Seconds: n} }
