package xds

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	priorityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// routes returns the routes of a gateway.
func (b *builder) routes(g *configv1.Gateway) *routev3.RouteConfiguration {
	own := append([]*routev3.Route{jobsRoute()}, uploads()...)
	all := b.routeConfiguration(routesName(g), g.RequestLimit(), append(own, entry(prefix("/")))...)
	allowOrigins(all.GetVirtualHosts()[0], g.GetCors())
	return all
}

// routeConfiguration returns the routes of a listener. A request matches an entry when it arrives, which leads
// nowhere, so what the ext_proc service did not plan cannot pass. Once it is planned it matches planned or passed, by
// metadata that only the ext_proc service can write: its path is the provider's by then. Others are the listener's
// own, the entries last. The limit is that of a request body as a client sends it, where it is buffered.
func (b *builder) routeConfiguration(name string, limit uint64, others ...*routev3.Route) *routev3.RouteConfiguration {
	idle := b.longestIdle()
	return &routev3.RouteConfiguration{
		Name: name,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "api",
			Domains: []string{"*"},
			// The limit holds for the translated body too, which may be longer than what the client sent.
			RequestBodyBufferLimit: wrapperspb.UInt64(limit + limit/2),
			Routes: append([]*routev3.Route{
				onward(envoy.RoutePlanned, envoy.KindLLM, retryPolicy(idle), idle),
				// Without retries Envoy keeps no copy of a body that it streams.
				onward(envoy.RoutePassed, envoy.KindPassed, &routev3.RetryPolicy{PerTryIdleTimeout: durationpb.New(idle)}, idle),
			}, others...),
		}},
	}
}

// entry has to be a route to a cluster and not a direct response, which would not raise the limit of the body. It
// takes any path: which ones there are, the objects of kind Route say. A request is on it until the ext_proc service
// has planned it: for one whose body is buffered that is as long as it takes to arrive, and for one that streams no
// longer than its headers.
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

// ofKind matches what the ext_proc service says is of a kind.
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

// onward returns the route of the requests of a kind to the clusters of their plans.
func onward(name, kind string, retries *routev3.RetryPolicy, idle time.Duration) *routev3.Route {
	return &routev3.Route{
		Name:                   name,
		Match:                  ofKind(kind),
		TypedPerFilterConfig:   passing(),
		RequestHeadersToRemove: []string{"x-request-id", "x-forwarded-proto", "x-forwarded-for", "x-envoy-external-address"},
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

// planSpecifier has Envoy take the clusters of the attempts from a request's own metadata; without it, nowhere.
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

// retryPolicy is the floor: the ext_proc service adds to it for each request, by headers, and can take nothing away.
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

// maxStream is how long a request may take in all, and maxArrival how long the body of one may take to arrive that is
// buffered.
const (
	maxStream  = time.Hour
	maxArrival = 120 * time.Second
)

// longestIdle returns the longest silence that any provider or model allows. No header sets it for one request, so the
// longest holds for all.
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
