package routing

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Routes are the paths that lead to providers as they are, the longest first.
type Routes []Route

// A Route leads what is under a path to a provider.
type Route struct {
	prefix, to string // without a slash at the end
	Provider   string
}

// NewRoutes returns routes as they are configured.
func NewRoutes(configured map[string]*configv1.Route) Routes {
	routes := make(Routes, 0, len(configured))
	for _, c := range configured {
		routes = append(routes, Route{
			prefix:   strings.TrimSuffix(c.GetPathPrefix(), "/"),
			to:       strings.TrimSuffix(c.Rewrite(), "/"),
			Provider: c.GetProvider(),
		})
	}
	slices.SortFunc(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(len(b.prefix), len(a.prefix)), cmp.Compare(a.prefix, b.prefix),
			cmp.Compare(a.Provider, b.Provider))
	})
	return routes
}

// Find returns the route of a path, or nil.
func (r Routes) Find(path string) *Route {
	for i := range r {
		if rest, ok := strings.CutPrefix(path, r[i].prefix); ok && (rest == "" || rest[0] == '/') {
			return &r[i]
		}
	}
	return nil
}

// Rewrite returns the provider's path for a client's.
func (r *Route) Rewrite(path string) string { return r.to + path[len(r.prefix):] }

// Climbs reports whether a path leads upwards for a server that reads escaped slashes as slashes: it would get out of
// what the operator has routed.
func Climbs(path string) bool {
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

// Climbing is the error for a path that climbs.
func Climbing() *openai.Error {
	return openai.BadRequest("", openai.CodeInvalidPath,
		"The path leads out of itself by '..', or has a '%%' that escapes nothing. Send it without.")
}
