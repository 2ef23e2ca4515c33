package exchange

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Routes are the paths that lead to providers as they are, the longest first.
type Routes []route

type route struct {
	prefix, to string // without a slash at the end
	provider   string
}

// NewRoutes returns routes as they are configured.
func NewRoutes(configured map[string]*configv1.Route) Routes {
	routes := make(Routes, 0, len(configured))
	for _, c := range configured {
		routes = append(routes, route{
			prefix:   strings.TrimSuffix(c.GetPathPrefix(), "/"),
			to:       strings.TrimSuffix(c.Rewrite(), "/"),
			provider: c.GetProvider(),
		})
	}
	slices.SortFunc(routes, func(a, b route) int {
		return cmp.Or(cmp.Compare(len(b.prefix), len(a.prefix)), cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.provider, b.provider))
	})
	return routes
}

// find returns the route of a path, or nil.
func (r Routes) find(path string) *route {
	for i := range r {
		if rest, ok := strings.CutPrefix(path, r[i].prefix); ok && (rest == "" || rest[0] == '/') {
			return &r[i]
		}
	}
	return nil
}

// rewrite returns the provider's path for a client's.
func (r *route) rewrite(path string) string { return r.to + path[len(r.prefix):] }

// climbs reports whether a path leads upwards for a server that reads escaped slashes as slashes: it would get out of what
// the operator has routed.
func climbs(path string) bool {
	if !strings.Contains(path, "..") && !strings.Contains(path, "%") {
		return false
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	parts := strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' })
	return slices.Contains(parts, "..")
}

func climbing() *openai.Error {
	return openai.BadRequest("", "invalid_path", "The path leads out of itself by '..', or has a '%%' that escapes nothing. Send it without.")
}

// modelIn returns the model that a Route's path names, where it has a price: Bedrock's answers name none.
func (x *Exchange) modelIn(vendor, path string) string {
	if x.key == nil {
		return ""
	}
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		if parts[i-1] != "model" && parts[i-1] != "models" {
			continue
		}
		name, err := url.PathUnescape(parts[i])
		if err != nil || len(name) > maxModelIn {
			return ""
		}
		for _, name := range [...]string{name, name[:max(0, strings.LastIndexByte(name, ':'))]} { // Gemini's paths go on with a verb
			if name != "" && x.env.derived(x.config).prices.Of(vendor, name).Rates != nil {
				return name
			}
		}
	}
	return ""
}

// maxModelIn bounds the names that are looked for, in bytes.
const maxModelIn = 256

// stays are headers of a client that must not reach the provider of a Route: they carry keys, or tell who the client is.
var stays = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "x-api-key": true, "api-key": true, "x-goog-api-key": true,
	"x-goog-user-project": true, "x-amz-security-token": true, "x-amz-date": true, "x-amz-content-sha256": true,
	"user-agent": true, "referer": true, "http-referer": true, "origin": true, "x-title": true, "via": true, "forwarded": true,
	"x-real-ip": true, "true-client-ip": true, "traceparent": true, "tracestate": true, "baggage": true,
	"openai-organization": true, "openai-project": true, "anthropic-organization-id": true,
}

// Beginnings and ends of names of headers that carry keys too, or in which a proxy on the way says who the client is.
var (
	stayBeginnings = [...]string{"x-forwarded-", "x-stainless-", "x-envoy-", "x-modelgate-", "cf-",
		"x-amzn-oidc-", "x-ms-token-", "x-ms-client-principal", "x-goog-iap-", "x-goog-authenticated-user-"}
	stayEnds = [...]string{"authorization", "-auth", "-token", "api-key", "-subscription-key"}
)

// travelsNot reports whether a header of a client must not reach the provider of a Route. What Envoy needs stays, and the
// route removes it once Envoy has logged it.
func travelsNot(name string, credentials []string) bool {
	switch {
	case name[0] == ':' || kept[name]:
		return false
	case stays[name],
		slices.ContainsFunc(stayBeginnings[:], func(s string) bool { return strings.HasPrefix(name, s) }),
		slices.ContainsFunc(stayEnds[:], func(s string) bool { return strings.HasSuffix(name, s) }):
		return true
	case strings.HasSuffix(name, "-version"), strings.HasSuffix(name, "-beta"):
		return false // they choose a version of the API, and neither an account nor what may be done with it
	}
	return slices.ContainsFunc(credentials, func(c string) bool { return strings.EqualFold(c, name) })
}
