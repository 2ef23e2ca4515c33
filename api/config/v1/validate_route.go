package configv1

import (
	"path"
	"regexp"
	"strings"
)

// pathPattern matches paths that all servers interpret in the same way: without escapes and without empty segments.
var pathPattern = regexp.MustCompile(`^(/[A-Za-z0-9._~@:+-]+)+/?$`)

// ownPaths are the gateway's own paths, which include the paths below them.
var ownPaths = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/moderations", ownResponses,
	"/v1/messages", "/v1/rerank",
	"/v1/images/generations", "/v1/images/edits", "/v1/images/variations",
	"/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
	"/v1/files", "/v1/uploads", "/v1/batches", "/v1/fine_tuning",
}

// ownResponses is the only own path that may have a route below it, because the provider stores the responses.
const ownResponses = "/v1/responses"

// OwnPath returns an own path of the gateway that a route with the prefix would take, or "".
func OwnPath(prefix string) string {
	above := strings.TrimSuffix(prefix, "/") + "/"
	for _, own := range ownPaths {
		below := strings.HasPrefix(above, own+"/") && (own != ownResponses || prefix == own)
		if strings.HasPrefix(own, above) || below {
			return own
		}
	}
	return ""
}

// maxRouteHeaders bounds the headers that a Route names.
const maxRouteHeaders = 32

var routeHeader = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,99}$`)

func (v *validator) route(r *Route) {
	v.label("name", r.GetName())
	v.label("provider", r.GetProvider())
	if v.path("path_prefix", r.GetPathPrefix()) {
		if own := OwnPath(r.GetPathPrefix()); own != "" {
			v.fail("path_prefix", "would take %s, which is the gateway's own", own)
		}
	}
	if to := r.GetRewritePrefix(); to != "" && to != "/" {
		v.path("rewrite_prefix", to)
	}
	if n := len(r.GetRequestHeaders()); n > maxRouteHeaders {
		v.fail("request_headers", "must be at most %d", maxRouteHeaders)
	}
	for i, name := range r.GetRequestHeaders() {
		if !routeHeader.MatchString(name) {
			v.fail(element("request_headers", i), "must be the name of a header in lower case, such as x-http-method-override")
		}
	}
}

func (v *validator) path(field, p string) bool {
	ok := len(p) <= maxText && pathPattern.MatchString(p) && path.Clean(p) == strings.TrimSuffix(p, "/")
	if !ok {
		v.fail(field, "must be the beginning of a path such as /v1/ocr, of at most %d letters, digits and ._~@:+-",
			maxText)
	}
	return ok
}
