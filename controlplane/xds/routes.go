package xds

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	priorityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
)

// routes returns the routes of a gateway.
func (b *builder) routes(g *configv1.Gateway, paths []path) *routev3.RouteConfiguration {
	own := append([]*routev3.Route{jobsRoute(), sessionRoute(), sessionEntry()}, uploads()...)
	for _, p := range paths {
		own = append(own, p.route(g))
	}
	all := b.routeConfiguration(routesName(g), g.RequestLimit(), append(own, entry(prefix("/")))...)
	allowOrigins(all.GetVirtualHosts()[0], g.GetCors())
	if names := g.GetHostnames(); len(names) > 0 {
		all.GetVirtualHosts()[0].Domains = names
		all.VirtualHosts = append(all.VirtualHosts, otherNames(g))
	}
	return all
}

// otherNames refuses requests for names that a gateway does not answer for. The ext_proc service does not see them.
func otherNames(g *configv1.Gateway) *routev3.VirtualHost {
	host := refusing("other_name", 404,
		openai.CodeUnknownURL.New("The gateway does not answer for the name in the Host header of this request."))
	host.TypedPerFilterConfig = unseen(g)
	return host
}

// unseen keeps requests from the ext_proc service.
func unseen(g *configv1.Gateway) map[string]*anypb.Any {
	off := pack(&extprocv3.ExtProcPerRoute{Override: &extprocv3.ExtProcPerRoute_Disabled{Disabled: true}})
	return map[string]*anypb.Any{extProcFilter: off, clientsFilter(g): off}
}

// routeConfiguration returns the routes of a listener. A new request matches an entry route, which leads to no
// endpoint, so that no request passes without a plan of the ext_proc service. A request with a plan matches planned
// or passed, by metadata that only the ext_proc service can write. Its path is the provider's then. The others are
// the listener's own routes, with the entry routes last. The limit is for a client's buffered request body.
func (b *builder) routeConfiguration(name string, limit uint64, others ...*routev3.Route) *routev3.RouteConfiguration {
	idle := b.longestIdle()
	return &routev3.RouteConfiguration{
		Name: name,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "api",
			Domains: []string{"*"},
			// The limit also applies to the translated body, which may be longer than the client's.
			RequestBodyBufferLimit: wrapperspb.UInt64(limit + limit/2),
			Routes: append([]*routev3.Route{
				onward(envoy.RoutePlanned, envoy.KindLLM, retryPolicy(idle), idle),
				// Without retries Envoy keeps no copy of a streamed body.
				onward(envoy.RoutePassed, envoy.KindPassed, &routev3.RetryPolicy{PerTryIdleTimeout: durationpb.New(idle)}, idle),
				replayed(),
			}, others...),
		}},
	}
}

// entry returns a route to a cluster instead of a direct response, which could not raise the limit of the body. It
// accepts any path, because objects of kind Route define the paths. A request uses it until the ext_proc service has
// planned it: a buffered request until its body has arrived, and a streamed one until its headers are processed.
func entry(match *routev3.RouteMatch) *routev3.Route {
	return &routev3.Route{
		Name:                 envoy.RouteEntry,
		Match:                match,
		TypedPerFilterConfig: holding(),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier:  &routev3.RouteAction_Cluster{Cluster: envoy.ClusterDeadEnd},
			Timeout:           seconds(0),
			MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: durationpb.New(maxArrival)},
		}},
	}
}

// ofKind matches requests with a kind set by the ext_proc service.
func ofKind(kind string) *routev3.RouteMatch {
	match := prefix("/")
	match.DynamicMetadata = []*matcherv3.MetadataMatcher{{
		Filter: envoy.Metadata,
		Path: []*matcherv3.MetadataMatcher_PathSegment{{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: envoy.MetadataKind},
		}},
		Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: exactly(kind)}},
	}}
	return match
}

// onward returns the route for requests of a kind to the clusters of their plans.
func onward(name, kind string, retries *routev3.RetryPolicy, idle time.Duration) *routev3.Route {
	return &routev3.Route{
		Name:                 name,
		Match:                ofKind(kind),
		TypedPerFilterConfig: passing(),
		RequestHeadersToRemove: []string{"x-request-id", "x-forwarded-proto", "x-forwarded-for", "x-envoy-external-address",
			envoy.HeaderCertificate},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier:     planSpecifier(),
			HostRewriteSpecifier: &routev3.RouteAction_AutoHostRewrite{AutoHostRewrite: wrapperspb.Bool(true)},
			Timeout:              seconds(0),
			IdleTimeout:          durationpb.New(max(300*time.Second, idle+time.Minute)),
			MaxStreamDuration:    &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: durationpb.New(maxStream)},
			RetryPolicy:          retries,
		}},
	}
}

// replayed returns the route on which Envoy answers. The ext_proc service replaces the answer, which needs a body for
// that.
func replayed() *routev3.Route {
	return &routev3.Route{
		Name:                 envoy.RouteReplayed,
		Match:                ofKind(envoy.KindReplayed),
		TypedPerFilterConfig: passing(),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 200,
			Body:   &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "\n"}},
		}},
	}
}

// planSpecifier selects the clusters of the attempts from a request's metadata. Without metadata there is no cluster.
func planSpecifier() *routev3.RouteAction_InlineClusterSpecifierPlugin {
	return &routev3.RouteAction_InlineClusterSpecifierPlugin{
		InlineClusterSpecifierPlugin: &routev3.ClusterSpecifierPlugin{
			Extension: &corev3.TypedExtensionConfig{
				Name: "envoy.router.cluster_specifier_plugin.priority_group",
				TypedConfig: pack(&priorityv3.PriorityGroupClusterSpecifier{
					PriorityGroups: []*priorityv3.PriorityGroup{{
						Name:     "none",
						Clusters: []*priorityv3.ClusterWeight{{ClusterName: envoy.ClusterDeadEnd, Weight: wrapperspb.UInt32(100)}},
					}},
					OverrideMetadataNamespace: envoy.MetadataPlan,
				}),
			},
		}}
}

// retryPolicy is the minimum: the ext_proc service can add to it for each request, by headers, but not remove
// anything.
func retryPolicy(idle time.Duration) *routev3.RetryPolicy {
	return &routev3.RetryPolicy{
		RetryOn:               "connect-failure,refused-stream,reset-before-request",
		NumRetries:            wrapperspb.UInt32(2),
		PerTryTimeout:         durationpb.New(new(configv1.Timeouts).FirstByteTimeout()),
		PerTryIdleTimeout:     durationpb.New(idle),
		RefreshClusterOnRetry: true,
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
			BaseInterval: durationpb.New(10 * time.Millisecond),
			MaxInterval:  durationpb.New(50 * time.Millisecond),
		},
	}
}

// maxStream bounds the total time of a request, and maxArrival the time for a buffered body to arrive.
const (
	maxStream  = time.Hour
	maxArrival = 120 * time.Second
)

// longestIdle returns the longest idle timeout of all providers and models. No header sets it for one request, so the
// longest applies to all.
func (b *builder) longestIdle() time.Duration {
	longest := new(configv1.Timeouts).IdleTimeout()
	for _, p := range b.providers {
		longest = max(longest, p.GetProvider().GetTimeouts().IdleTimeout())
	}
	for _, m := range b.models {
		longest = max(longest, m.GetTimeouts().IdleTimeout())
	}
	return min(longest, maxStream)
}

func prefix(p string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: p}}
}
