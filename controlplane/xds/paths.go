package xds

import (
	"cmp"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// A path is one of a Route, and whether a gateway answers for it.
type path struct {
	prefix   string
	answered bool
}

// pathsOf returns the paths of Routes, the longest first, if there is one for which a gateway does not answer. Those
// that have the gateway answer for all of its requests need none.
func pathsOf(g *configv1.Gateway, routes []*configv1.Route) (all []path) {
	refused := false
	for _, r := range routes {
		if _, err := route(r); err != nil {
			continue // it is nobody's
		}
		p := path{strings.TrimSuffix(r.GetPathPrefix(), "/"),
			len(r.GetGateways()) == 0 || slices.Contains(r.GetGateways(), g.GetName())}
		all, refused = append(all, p), refused || !p.answered
	}
	if !refused {
		return nil
	}
	slices.SortFunc(all, func(a, b path) int {
		return cmp.Or(cmp.Compare(len(b.prefix), len(a.prefix)), cmp.Compare(a.prefix, b.prefix))
	})
	return all
}

// route returns the entry of a path, or its refusal. It comes after the routes of planned requests, whose path is the
// provider's.
func (p path) route(g *configv1.Gateway) *routev3.Route {
	match := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: p.prefix}}
	if p.answered {
		return entry(match)
	}
	refused := refusing("other_path", 404,
		openai.CodeUnknownURL.New("This gateway does not answer for the path %s.", p.prefix))
	r := refused.GetRoutes()[0]
	r.Match, r.TypedPerFilterConfig, r.ResponseHeadersToAdd = match, unseen(g), refused.GetResponseHeadersToAdd()
	return r
}
