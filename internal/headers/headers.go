// Package headers is the table of the headers that cross the gateway: which of a client's a provider gets, and which
// of a provider's a client gets.
//
// A translated request and its answer have only the headers that are always forwarded. What a Route passes has all
// that are not named here. The most likely mistake is to forget a spelling. Names are in lower case, and parts of
// names stand for all that contain them.
package headers

import (
	"slices"
	"strings"
)

// A Way says how far a header goes.
type Way uint8

// The ways.
const (
	Routed Way = iota // through Routes only
	Always            // through every path
	Named             // through Routes that name it
	Never             // nowhere
)

// A Rule is a row of the table.
type Rule struct {
	Way Way
	Why string
	// Names, and what names begin with, end with or contain, in lower case.
	Names, Prefixes, Suffixes, Parts []string
}

func (r *Rule) has(name string) bool {
	in := func(list []string, is func(name, s string) bool) bool {
		return slices.ContainsFunc(list, func(s string) bool { return is(name, s) })
	}
	return slices.Contains(r.Names, name) || in(r.Prefixes, strings.HasPrefix) || in(r.Suffixes, strings.HasSuffix) ||
		in(r.Parts, strings.Contains)
}

// Requests returns the rules for headers of clients. The first that has a name counts.
func Requests() []Rule { return requests[:] }

// Answers returns the rules for headers of providers.
func Answers() []Rule { return answers[:] }

var requests = [...]Rule{
	{Way: Always, Why: "the body, and what Envoy needs", Names: []string{"content-type", "content-length", "accept",
		"transfer-encoding",
		// The route removes these, after Envoy has logged them.
		"x-request-id", "x-forwarded-for", "x-forwarded-proto", "x-envoy-external-address"}},
	{Way: Never, Why: "a compressed answer hides its usage, and the secrets in an error",
		Names: []string{"accept-encoding"}},
	{Way: Never, Why: "keys, and who the client is", Names: []string{"authorization", "proxy-authorization", "cookie",
		"cookie2", "x-api-key", "api-key", "x-goog-api-key", "x-goog-user-project", "x-amz-security-token", "x-amz-date",
		"x-amz-content-sha256", "user-agent", "referer", "http-referer", "origin", "x-title", "via", "forwarded",
		"x-real-ip", "true-client-ip", "traceparent", "tracestate", "baggage", "openai-organization", "openai-project",
		"anthropic-organization-id"},
		Prefixes: []string{"x-forwarded-", "x-stainless-", "x-envoy-", "x-modelgate-", "cf-", "x-amzn-oidc-",
			"x-ms-token-", "x-ms-client-principal", "x-goog-iap-", "x-goog-authenticated-user-"},
		Suffixes: []string{"authorization", "-auth", "-token", "api-key", "-subscription-key"}},
	{Way: Named, Why: "another method, address or operation than Envoy has seen", Names: []string{"x-http-method",
		"x-method", "soapaction", "x-amz-target", "x-middleware-subrequest", "destination", "overwrite", "x-host",
		"x-script-name", "x-proxy-host", "x-url", "x-uri"},
		Suffixes: []string{"-method-override", "-method", "-target-uri"},
		Parts:    []string{"override", "rewrite", "original-"}},
}

var answers = [...]Rule{
	{Way: Always, Why: "the body", Names: []string{"content-type", "content-length", "transfer-encoding"}},
	{Way: Never, Why: "send the client to another place, now or later, past the gateway", Names: []string{"location",
		"content-location", "refresh", "link", "alt-svc", "alt-used", "operation-location", "azure-asyncoperation",
		"x-goog-upload-url", "x-goog-upload-control-url", "sourcemap", "x-sourcemap", "service-worker-allowed",
		"x-original-url", "x-rewrite-url", "uri"},
		Prefixes: []string{"x-accel-", "x-sendfile", "x-lighttpd-", "x-reproxy-"}},
	{Way: Never, Why: "change what the client keeps of the gateway's name", Names: []string{"set-cookie", "set-cookie2",
		"strict-transport-security", "public-key-pins", "public-key-pins-report-only", "expect-ct", "clear-site-data",
		"nel", "report-to", "reporting-endpoints", "content-security-policy", "content-security-policy-report-only",
		"accept-ch", "critical-ch", "origin-trial", "speculation-rules", "www-authenticate", "proxy-authenticate",
		"authentication-info", "proxy-authentication-info", "p3p"}, Prefixes: []string{"access-control-"}},
	{Way: Never, Why: "the gateway's account and connection, and what only the gateway says", Names: []string{"server",
		"server-timing", "via", "openai-organization", "openai-project", "anthropic-organization-id",
		"x-upstream-request-id"},
		Prefixes: []string{"x-modelgate-", "x-envoy-", "x-ratelimit-", "anthropic-ratelimit-"}},
}

func wayOf(rules []Rule, name string) Way {
	for i := range rules {
		if rules[i].has(name) {
			return rules[i].Way
		}
	}
	return Routed
}

// ToProvider reports whether the provider of a translated request gets a header of the client.
func ToProvider(name string) bool { return slices.Contains(requests[0].Names, name) }

// ToClient reports whether the client of a translated answer gets a header of the provider.
func ToClient(name string) bool { return slices.Contains(answers[0].Names, name) }

// ThroughRoute reports whether the provider of a Route, which names some headers, gets a header of the client.
func ThroughRoute(name string, named []string) bool {
	way := wayOf(requests[:], name)
	return way == Routed || way == Always || way == Named && slices.Contains(named, name)
}

// BackThroughRoute reports whether the client of a Route gets a header of the provider.
func BackThroughRoute(name string) bool { return wayOf(answers[:], name) != Never }
