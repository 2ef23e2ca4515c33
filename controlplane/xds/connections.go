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
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// sizeLimitFilter is the filter of a gateway's listener that bounds bodies. Routes can turn it off.
const sizeLimitFilter = "mg.body_size_limit"

// holdFilter is the filter of a gateway's listener that holds requests without a plan, and maxHeld bounds the held
// bytes. The ext_proc service removes the body, so that none are held.
const (
	holdFilter = "mg.hold"
	maxHeld    = 1 << 20
)

// connections returns the HTTP settings of a gateway's listener.
func connections(g *configv1.Gateway) *hcmv3.HttpConnectionManager {
	m := connectionDefaults("edge", routesName(g), extProcFilter)
	m.LocalReplyConfig = localReplies(dialects.Others()...)
	m.XffNumTrustedHops = g.GetTrustedHops()
	m.NormalizePath, m.MergeSlashes = wrapperspb.Bool(true), true
	// It comes first, so that a flood costs as little as possible.
	flood := discovered(addressLimitName(g), &ratelimitv3.LocalRateLimit{})
	limit := httpFilter(sizeLimitFilter, &sizelimitv3.BodySizeLimit{MaxRequestBytes: wrapperspb.UInt64(g.RequestLimit())})
	extProc, router := m.GetHttpFilters()[0], m.GetHttpFilters()[1]
	m.HttpFilters = slices.Concat([]*hcmv3.HttpFilter{ownRequestID(), flood}, cors(g),
		[]*hcmv3.HttpFilter{limit, extProc, hold(), router})
	return m
}

// connectionDefaults returns the HTTP settings of a listener with the ext_proc service.
func connectionDefaults(stats, routes, extProc string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: stats,
		CodecType:  hcmv3.HttpConnectionManager_AUTO,

		// The address is the connection's, minus trusted hops. A client's x-envoy-* headers are removed.
		UseRemoteAddress:             wrapperspb.Bool(true),
		SkipXffAppend:                true,
		PreserveExternalRequestId:    true,
		AlwaysSetRequestIdInResponse: true,

		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		// Names of models have slashes, which SDKs escape. Only the ext_proc service reads the path.
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
		StripPortMode:                &hcmv3.HttpConnectionManager_StripAnyHostPort{StripAnyHostPort: true},
		// Providers that are reached over TLS refuse :scheme http.
		SchemeHeaderTransformation: &corev3.SchemeHeaderTransformation{MatchUpstream: true},

		MaxRequestHeadersKb: wrapperspb.UInt32(32),
		// Health checks and old scripts use HTTP/1.0: they get answers without chunks, and need not send a host.
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
			// A proxy in front has many clients on one connection, and those of streams often leave. With the defaults,
			// 1,000 and 33, Envoy cuts the connection, and with it the requests of all others. It still cuts one on
			// which most of the streams end within a second.
			StreamResetBurst: wrapperspb.UInt64(10_000),
			StreamResetRate:  wrapperspb.UInt64(1_000),
		},

		RequestHeadersTimeout: seconds(10),
		// There is no RequestTimeout, because it applies to every request, and an upload may take an hour on a slow
		// line. The entry routes bound the time for a buffered body to arrive. The other routes bound the idle time
		// of a request.
		StreamIdleTimeout: seconds(300),
		// The default of one second would delay a reset in mid-stream for an HTTP/1 client.
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

// requestLog sends records to the ext_proc service about requests that it cannot know: requests that never reached it,
// who cut a request, and how an unseen answer ended, which it asks for. It logs all other requests itself, because a
// record costs both sides as much as a message. Nearly all requests are decided without CEL, which costs several times
// as much.
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

// attemptLog reports attempts to the ext_proc service that have failed. Otherwise it would not know how attempts ended
// that Envoy has retried.
func attemptLog() *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name:   "envoy.access_loggers.http_grpc",
		Filter: either(flags(), atLeast(400)),
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

// hold keeps a request from the router until it is complete, if the route says so, as the entry routes do. For a
// refused request the ext_proc service discards the body piece by piece, and then answers.
func hold() *hcmv3.HttpFilter {
	filter := httpFilter(holdFilter, held())
	filter.Disabled = true
	return filter
}

func held() *bufferv3.Buffer { return &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(maxHeld)} }

// holding turns the filter on for the route of an arriving request, and passing turns it off for the route after the
// plan.
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

// discovered returns a filter whose configuration is a separate resource, so that a change does not change the
// listener.
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

// keepalive detects a lost peer on an idle connection, such as the connection of a silent stream.
func keepalive() *corev3.KeepaliveSettings {
	return &corev3.KeepaliveSettings{Interval: seconds(30), Timeout: seconds(10)}
}

func seconds(n int64) *durationpb.Duration { return &durationpb.Duration{Seconds: n} }
