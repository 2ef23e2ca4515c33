package exchange

import (
	"net/url"
	"slices"
	"strings"
)

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
		// Gemini's paths go on with a verb
		for _, name := range [...]string{name, name[:max(0, strings.LastIndexByte(name, ':'))]} {
			if name != "" && x.env.derived(x.config).prices.Of(vendor, name).Rates != nil {
				return name
			}
		}
	}
	return ""
}

// maxModelIn bounds the names that are looked for, in bytes.
const maxModelIn = 256

// stays are headers of a client that must not reach the provider of a Route: they carry keys, or tell who the client
// is.
var stays = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "x-api-key": true, "api-key": true,
	"x-goog-api-key":      true,
	"x-goog-user-project": true, "x-amz-security-token": true, "x-amz-date": true, "x-amz-content-sha256": true,
	"user-agent": true, "referer": true, "http-referer": true, "origin": true, "x-title": true, "via": true,
	"forwarded": true,
	"x-real-ip": true, "true-client-ip": true, "traceparent": true, "tracestate": true, "baggage": true,
	"openai-organization": true, "openai-project": true, "anthropic-organization-id": true,
}

// Beginnings and ends of names of headers that carry keys too, or in which a proxy on the way says who the client is.
var (
	stayBeginnings = [...]string{"x-forwarded-", "x-stainless-", "x-envoy-", "x-modelgate-", "cf-",
		"x-amzn-oidc-", "x-ms-token-", "x-ms-client-principal", "x-goog-iap-", "x-goog-authenticated-user-"}
	stayEnds = [...]string{"authorization", "-auth", "-token", "api-key", "-subscription-key"}
)

// isWithheld reports whether a header of a client must not reach the provider of a Route. What Envoy needs stays, and
// the route removes it once Envoy has logged it.
func isWithheld(name string, credentials []string) bool {
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
