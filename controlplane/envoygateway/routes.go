package envoygateway

import (
	"maps"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/modelgate/modelgate/envoy"
)

// entries returns the routes of a Gateway for the requests that a route of Envoy Gateway matches. What policies of
// Envoy Gateway have set for its own filters stays.
func (g *gateway) entries(r *routev3.Route, enabled *anypb.Any) (all []*routev3.Route) {
	for _, own := range g.host.GetRoutes() {
		if isOnward(own) {
			continue
		}
		match, whole := narrowed(r.GetMatch(), own.GetMatch())
		if match == nil {
			continue
		}
		entry := proto.CloneOf(own)
		entry.Match, entry.Metadata = match, r.GetMetadata()
		entry.TypedPerFilterConfig = maps.Clone(r.GetTypedPerFilterConfig())
		if own.GetName() == envoy.RouteEntry { // else Envoy answers by itself, and no filter of ours is asked
			entry.RequestBodyBufferLimit = g.host.GetRequestBodyBufferLimit()
			entry.TypedPerFilterConfig = g.settings(entry.GetTypedPerFilterConfig(), own, enabled)
		}
		all = append(all, entry)
		if whole {
			break
		}
	}
	return all
}

// settings adds those of our filters on an entry route.
func (g *gateway) settings(all map[string]*anypb.Any, own *routev3.Route, enabled *anypb.Any) map[string]*anypb.Any {
	if all == nil {
		all = map[string]*anypb.Any{}
	}
	for _, name := range g.always {
		all[name] = enabled
	}
	maps.Copy(all, g.renamed(g.host.GetTypedPerFilterConfig()))
	maps.Copy(all, g.renamed(own.GetTypedPerFilterConfig()))
	return all
}

// isOnward reports whether a route is for requests that have a plan: it matches metadata that only the ext_proc
// service can write.
func isOnward(r *routev3.Route) bool { return len(r.GetMatch().GetDynamicMetadata()) > 0 }

// onward returns the routes of requests that have a plan. No request of others takes them. They have the settings of
// all Gateways of their host.
func onward(all []*gateway) (routes []*routev3.Route) {
	first := all[0]
	for _, own := range first.host.GetRoutes() {
		if !isOnward(own) {
			continue
		}
		r := proto.CloneOf(own)
		r.RequestBodyBufferLimit = first.host.GetRequestBodyBufferLimit()
		settings := map[string]*anypb.Any{}
		for _, g := range all {
			maps.Copy(settings, g.renamed(own.GetTypedPerFilterConfig()))
		}
		r.TypedPerFilterConfig = settings
		routes = append(routes, r)
	}
	return routes
}

// refused returns a route for the requests of a rule whose Gateway is not there. They go to no backend.
func refused(r *routev3.Route, why string) *routev3.Route {
	return &routev3.Route{Name: r.GetName(), Match: r.GetMatch(), Metadata: r.GetMetadata(),
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 503,
			Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: why + "\n"}}}}}
}

// narrowed returns the match of requests that both of a route of Envoy Gateway and of an entry route match, or nil.
// Whole is that of the route: no further entry route can match more of it.
func narrowed(theirs, own *routev3.RouteMatch) (match *routev3.RouteMatch, whole bool) {
	switch {
	case covers(own, theirs):
		return theirs, true
	case covers(theirs, own):
		match = proto.CloneOf(theirs)
		match.PathSpecifier = own.GetPathSpecifier()
		return match, false
	default:
		return nil, false
	}
}

// covers reports whether each path that b matches is one that a matches. It returns false for what it cannot compare,
// such as expressions.
func covers(a, b *routev3.RouteMatch) bool {
	begin, parts := a.GetPrefix(), a.GetPathSeparatedPrefix()
	if begin == "/" {
		return true
	}
	var path string // with which all paths of b begin
	switch of := b.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		path = of.Path
		if a.GetPath() == path || parts == path {
			return true
		}
	case *routev3.RouteMatch_PathSeparatedPrefix:
		path = of.PathSeparatedPrefix
		if parts == path {
			return true
		}
	case *routev3.RouteMatch_Prefix:
		path = of.Prefix
	default:
		return false
	}
	return begin != "" && strings.HasPrefix(path, begin) || parts != "" && strings.HasPrefix(path, parts+"/")
}
