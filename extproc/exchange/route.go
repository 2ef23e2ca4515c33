package exchange

import (
	"net/url"
	"slices"
	"strings"
)

// modelIn returns the model in a Route's path, if it has a price. Bedrock's answers do not name the model.
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
		// Gemini's paths have a verb after the model
		for _, name := range [...]string{name, name[:max(0, strings.LastIndexByte(name, ':'))]} {
			if name != "" && x.env.derived(x.config).prices.Of(vendor, name).Rates != nil {
				return name
			}
		}
	}
	return ""
}

// maxModelIn bounds the length of a model's name in a path, in bytes.
const maxModelIn = 256

// withheld are headers of a client that the provider of a Route must not get: they carry keys, or identify the client.
var withheld = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "x-api-key": true, "api-key": true,
	"x-goog-api-key":      true,
	"x-goog-user-project": true, "x-amz-security-token": true, "x-amz-date": true, "x-amz-content-sha256": true,
	"user-agent": true, "referer": true, "http-referer": true, "origin": true, "x-title": true, "via": true,
	"forwarded": true,
	"x-real-ip": true, "true-client-ip": true, "traceparent": true, "tracestate": true, "baggage": true,
	"openai-organization": true, "openai-project": true, "anthropic-organization-id": true,
}

// Prefixes and suffixes of further headers that carry keys, or in which a proxy identifies the client.
var (
	withheldPrefixes = [...]string{"x-forwarded-", "x-stainless-", "x-envoy-", "x-modelgate-", "cf-",
		"x-amzn-oidc-", "x-ms-token-", "x-ms-client-principal", "x-goog-iap-", "x-goog-authenticated-user-"}
	withheldSuffixes = [...]string{"authorization", "-auth", "-token", "api-key", "-subscription-key"}
)

// isWithheld reports whether the provider of a Route must not get a header of the client. Headers that Envoy needs are
// kept here; the route removes them after Envoy has logged them.
func isWithheld(name string, credentials []string) bool {
	switch {
	case name[0] == ':' || forwarded[name]:
		return false
	case withheld[name],
		slices.ContainsFunc(withheldPrefixes[:], func(s string) bool { return strings.HasPrefix(name, s) }),
		slices.ContainsFunc(withheldSuffixes[:], func(s string) bool { return strings.HasSuffix(name, s) }):
		return true
	case strings.HasSuffix(name, "-version"), strings.HasSuffix(name, "-beta"):
		return false // they select a version of the API, and neither an account nor permissions
	}
	return slices.ContainsFunc(credentials, func(c string) bool { return strings.EqualFold(c, name) })
}
