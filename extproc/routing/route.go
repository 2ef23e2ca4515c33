package routing

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Routes are the paths that pass to providers, sorted by length, the longest first.
type Routes []Route

// A Route passes the paths with a prefix to a provider.
type Route struct {
	prefix, to string // without a slash at the end
	Provider   string
	Headers    []string // that the provider gets because the configuration names them
}

// NewRoutes converts the configured routes.
func NewRoutes(configured map[string]*configv1.Route) Routes {
	routes := make(Routes, 0, len(configured))
	for _, c := range configured {
		routes = append(routes, Route{
			prefix:   strings.TrimSuffix(c.GetPathPrefix(), "/"),
			to:       strings.TrimSuffix(c.Rewrite(), "/"),
			Provider: c.GetProvider(),
			Headers:  c.GetRequestHeaders(),
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

// Rewrite converts the client's path to the provider's.
func (r *Route) Rewrite(path string) string { return r.to + path[len(r.prefix):] }

// HasParentSegment reports whether a server that decodes escaped slashes would leave the routed prefix, because the
// path has a segment "..".
func HasParentSegment(path string) bool {
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

// ParentSegmentError returns the error for a path with a parent segment.
func ParentSegmentError() *openai.Error {
	return openai.CodeInvalidPath.New(
		"The path leads out of itself by '..', or has a '%%' that escapes nothing. Send it without.")
}
