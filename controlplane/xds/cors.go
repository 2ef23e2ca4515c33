package xds

import (
	"regexp"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// corsFilter is the filter that answers preflights, and lets browsers read answers. Only gateways with CORS settings
// have it.
const corsFilter = "envoy.filters.http.cors"

func cors(g *configv1.Gateway) []*hcmv3.HttpFilter {
	if g.GetCors() == nil {
		return nil
	}
	return []*hcmv3.HttpFilter{httpFilter(corsFilter, &corsv3.Cors{})}
}

// allowOrigins sets the allowed pages of a gateway's listener. For browsers, only cookies are credentials and keys are
// not, so any origin can be allowed.
func allowOrigins(host *routev3.VirtualHost, c *configv1.Cors) {
	if c == nil {
		return
	}
	policy := &corsv3.CorsPolicy{
		AllowMethods:  "GET, HEAD, POST, PUT, PATCH, DELETE",
		AllowHeaders:  c.RequestHeaders(),
		ExposeHeaders: c.ResponseHeaders(),
		MaxAge:        strconv.Itoa(int(c.PreflightMaxAge().Seconds())),
		// A preflight of another page is answered too, and allows nothing.
		ForwardNotMatchingPreflights: wrapperspb.Bool(false),
	}
	for _, origin := range c.GetOrigins() {
		policy.AllowOriginStringMatch = append(policy.AllowOriginStringMatch, originMatcher(origin))
	}
	host.TypedPerFilterConfig = map[string]*anypb.Any{corsFilter: pack(policy)}
}

func originMatcher(origin string) *matcherv3.StringMatcher {
	if !strings.Contains(origin, "*") {
		return exactly(origin)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(origin), `\*`, ".*")
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: pattern}}}
}
