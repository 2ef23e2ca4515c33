package main

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/modelgate/modelgate/envoy"
)

// A variant is a gateway's listener without one of its parts. It need not be safe: it only has to answer.
type variant struct {
	name   string
	change func(*listener)
}

const wholeListener = "the gateway's listener"

// variants are the whole listener, and the same without each of its parts.
func variants() []variant {
	return slices.Concat([]variant{{wholeListener, func(*listener) {}}}, filterVariants(), extProcVariants(),
		logVariants(), routeVariants(), connectionVariants())
}

func filterVariants() []variant {
	drop := func(name string) func(*listener) { return func(l *listener) { l.drop(name) } }
	return []variant{
		{"without the check of the request's id", drop("mg.request_id")},
		{"without the limit of an address", drop("gateway/" + gatewayName + "/address_limit")},
		{"without the limit of the body", drop("mg.body_size_limit")},
		{"without the hold of a request that has no plan", drop("mg.hold")},
	}
}

func extProcVariants() []variant {
	return []variant{
		{"ext_proc: without response attributes (CEL)", func(l *listener) { l.extProc().ResponseAttributes = nil }},
		{"ext_proc: with few of the headers", func(l *listener) {
			l.extProc().ForwardRules = forwarded("authorization", "content-type", "x-request-id", ":path", ":method", ":status")
		}},
		{"ext_proc: its x-envoy headers are ignored", func(l *listener) {
			l.extProc().MutationRules.AllowEnvoy, l.extProc().MutationRules.DisallowIsError = nil, nil
		}},
		{"ext_proc: without the answer", func(l *listener) { l.extProc().AllowModeOverride = false }},
	}
}

func forwarded(names ...string) *extprocv3.HeaderForwardingRules {
	list := &matcherv3.ListStringMatcher{}
	for _, n := range names {
		list.Patterns = append(list.Patterns,
			&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: n}})
	}
	return &extprocv3.HeaderForwardingRules{AllowedHeaders: list}
}

func logVariants() []variant {
	return []variant{
		{"without the log of requests", func(l *listener) { l.manager.AccessLog = nil }},
		{"log of requests: without its CEL", func(l *listener) {
			filter := l.manager.GetAccessLog()[0].GetFilter().GetOrFilter()
			filter.Filters = filter.GetFilters()[:2]
		}},
		{"log of requests: without its metadata", func(l *listener) {
			filter := l.manager.GetAccessLog()[0].GetFilter().GetOrFilter()
			filter.Filters = append(filter.GetFilters()[:1:1], filter.GetFilters()[2].GetAndFilter().GetFilters()[1])
		}},
		{"without the log of attempts", func(l *listener) {
			l.filters["envoy.filters.http.router"].(*routerv3.Router).UpstreamLog = nil
		}},
		{"without local replies", func(l *listener) { l.manager.LocalReplyConfig = nil }},
	}
}

func routeVariants() []variant {
	return []variant{
		{"route: without the plan in metadata", func(l *listener) {
			l.extProc().MetadataOptions.ReceivingNamespaces.Typed = nil
			for _, r := range l.onward() {
				r.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
				r.GetRoute().ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: l.first()}
			}
		}},
		{"route: without retries", func(l *listener) { l.planned().GetRoute().RetryPolicy = nil }},
		{"route: without timeouts", func(l *listener) {
			for _, r := range l.onward() {
				r.GetRoute().MaxStreamDuration, r.GetRoute().IdleTimeout = nil, nil
			}
			l.planned().GetRoute().GetRetryPolicy().PerTryIdleTimeout = nil
		}},
		{"route: without the removal of headers", func(l *listener) { l.planned().RequestHeadersToRemove = nil }},
	}
}

func connectionVariants() []variant {
	return []variant{
		{"connection: without checks of paths and hosts", func(l *listener) {
			m := l.manager
			m.NormalizePath, m.MergeSlashes, m.StripPortMode, m.SchemeHeaderTransformation = nil, false, nil, nil
			m.CommonHttpProtocolOptions.HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_ALLOW
			m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_IMPLEMENTATION_SPECIFIC_DEFAULT
		}},
		{"connection: without timeouts", func(l *listener) {
			l.manager.RequestHeadersTimeout, l.manager.StreamIdleTimeout = nil, durationpb.New(0)
			l.manager.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(0)
		}},
		{"without statistics", func(l *listener) {
			l.bootstrap.StatsConfig = &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
				StatsMatcher: &metricsv3.StatsMatcher_RejectAll{RejectAll: true}}}
		}},
		{"without the overload manager", func(l *listener) { l.bootstrap.OverloadManager = nil }},
	}
}

// onward are the routes on which Envoy does not answer itself.
func (l *listener) onward() (all []*routev3.Route) {
	for _, r := range l.routes.GetVirtualHosts()[0].GetRoutes() {
		if r.GetRoute() != nil {
			all = append(all, r)
		}
	}
	return all
}

// planned is the route of requests with a plan.
func (l *listener) planned() *routev3.Route {
	for _, r := range l.onward() {
		if r.GetName() == envoy.RoutePlanned {
			return r
		}
	}
	return nil
}
