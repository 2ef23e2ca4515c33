package xds

import (
	"fmt"
	"slices"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// A localReply is the client's form of an error that Envoy makes itself.
type localReply struct {
	filter     *accesslogv3.AccessLogFilter
	status     uint32 // 0: Envoy's own
	retryAfter string
	noRetry    bool
	message    string
	code       openai.Code
}

// localReplies converts every error of Envoy to OpenAI's. The first match is used. It matches the detail or the flag
// of a reply if there is one, because a bare status also matches answers of the ext_proc service, which must not
// change. Requests of the other dialects get their own form.
func localReplies(others ...*inbound.Dialect) *hcmv3.LocalReplyConfig {
	unreachable := []string{"UH", "NC", "NFCF", "UO", "UF", "UC", "UR", "LR", "UPE"}
	replies := []localReply{
		{filter: cel("response.code_details.startsWith('ext_proc_') || response.code_details.startsWith('mismatch_between_content_length')"),
			status: 503, code: openai.CodeGatewayUnavailable,
			message: "The gateway is temporarily unavailable. Please retry."},
		{filter: cel(
			"response.code_details == 'request_payload_too_large' || response.code_details == 'body_size_limit_exceeded'"),
			code: openai.CodeRequestTooLarge, message: "Request body too large."},
		{filter: ofEnvoy(431),
			code: openai.CodeHeadersTooLarge, message: "Request headers too large."},
		{filter: cel("response.code_details == 'overload'"), retryAfter: "1",
			code: openai.CodeOverloaded, message: "The gateway is overloaded. Please retry."},
		{filter: cel("response.code_details == 'local_rate_limited'"), status: 429, retryAfter: "1",
			code:    openai.CodeRateLimitExceeded,
			message: "Too many requests from this address. Please retry."},
		{filter: cel("response.code_details == 'response_payload_too_large'"), status: 502,
			code:    openai.CodeUpstreamResponseTooLarge,
			message: "The provider's answer is larger than the gateway can hold."},
		{filter: cel("response.code_details == 'upgrade_failed'"),
			code: openai.CodeUpgradeNotSupported, message: "Protocol upgrades are not supported."},
		// Before the flags about providers: such a request did not arrive, for any destination.
		{filter: ofEnvoy(408),
			code: openai.CodeRequestTimeout, message: "The request was not received in time."},
		{filter: both(ofJobs(), flags("NC")), status: 503, noRetry: true,
			code:    openai.CodeJobsNotConfigured,
			message: "This gateway has no job service, which files, batches, fine-tuning and the deletion of models need. An operator can set it up, with an object of kind JobService."},
		{filter: both(ofJobs(), flags("UT", "SI", "DT", "UMSDR")), status: 504,
			code:    openai.CodeJobsTimeout,
			message: "The job service, which serves files, batches and fine-tuning, did not answer in time. Please retry."},
		{filter: both(ofJobs(), flags(unreachable...)), status: 503, retryAfter: "1",
			code:    openai.CodeJobsUnavailable,
			message: "The job service, which serves files, batches and fine-tuning, is unavailable. Please retry."},
		{filter: flags("NR"),
			code: openai.CodeUnknownURL, message: "Invalid URL (%REQ(:METHOD)% %PATH(NQ:ORIG_OR_PATH)%)"},
		{filter: flags("UT", "SI", "DT", "UMSDR"), status: 504,
			code: openai.CodeUpstreamTimeout, message: "The provider did not answer in time."},
		{filter: flags(unreachable...), status: 503,
			code: openai.CodeUpstreamUnavailable, message: "The provider is unavailable."},
		{filter: ofEnvoy(426),
			code: openai.CodeUpgradeRequired, message: "HTTP/1.1 or HTTP/2 is required."},
		// The flag of a protocol error is not set yet at this point, so the status has to match.
		{filter: ofEnvoy(400),
			code: openai.CodeBadRequest, message: "Malformed HTTP request."},
	}
	return inDialects(replies, others)
}

// inDialects returns the replies in the forms of all dialects, the default one last.
func inDialects(replies []localReply, others []*inbound.Dialect) *hcmv3.LocalReplyConfig {
	config := &hcmv3.LocalReplyConfig{}
	for _, d := range others {
		if d.OpenAIErrors {
			continue
		}
		for _, r := range replies {
			config.Mappers = append(config.Mappers, r.mapper(d, both(ofDialect(d), r.filter)))
		}
	}
	for _, r := range replies {
		config.Mappers = append(config.Mappers, r.mapper(dialects.Default, r.filter))
	}
	return config
}

// ofDialect matches requests of a dialect by the ext_proc service's metadata. Before there is any, it matches by
// the path, which later is the provider's.
func ofDialect(d *inbound.Dialect) *accesslogv3.AccessLogFilter {
	said := metadata(envoy.MetadataDialect, &matcherv3.ValueMatcher{
		MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: exactly(d.Name)}}, false)
	return either(said, both(lacks(envoy.MetadataDialect), ofPaths(d)))
}

// ofPaths matches requests whose path is a dialect's.
func ofPaths(d *inbound.Dialect) *accesslogv3.AccessLogFilter {
	if d.Prefix != "" {
		return ofPath(d.Prefix)
	}
	var all []*accesslogv3.AccessLogFilter
	for _, o := range d.Operations {
		if slices.ContainsFunc(d.Operations,
			func(other *inbound.Operation) bool { return strings.HasPrefix(o.Path, other.Path+"/") }) {
			continue // the other's prefix matches it
		}
		all = append(all, ofPath(o.Path))
	}
	if len(all) == 1 { // Envoy demands two of them for an either
		return all[0]
	}
	return either(all...)
}

// ofPath matches requests whose path has a prefix.
func ofPath(prefix string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{Name: ":path",
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: prefixed(prefix)}}}}}
}

func prefixed(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: s}}
}

func (r localReply) mapper(d *inbound.Dialect, filter *accesslogv3.AccessLogFilter) *hcmv3.ResponseMapper {
	body := &structpb.Struct{}
	e := r.code.New("%s", r.message).WithStatus(int(r.status))
	e.RequestID = "%RESP(x-request-id)%"
	if err := body.UnmarshalJSON(d.AppendError(nil, e)); err != nil {
		panic(fmt.Sprintf("the local reply %s: %v", r.code, err)) // a dialect writes JSON
	}
	m := &hcmv3.ResponseMapper{
		Filter:       filter,
		HeadersToAdd: requestID(d),
		// The format sets the content type application/json.
		BodyFormatOverride: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: body},
		},
	}
	if r.status != 0 {
		m.StatusCode = wrapperspb.UInt32(r.status)
	}
	if r.retryAfter != "" {
		m.HeadersToAdd = append(m.HeadersToAdd, header("retry-after", r.retryAfter))
	}
	if r.noRetry {
		m.HeadersToAdd = append(m.HeadersToAdd, header("x-should-retry", "false"))
	}
	return m
}

// requestID sets the headers with the id of the request. Envoy writes them before the body, which repeats the id. Each
// value replaces the one before it, but for an empty one: the id that the ext_proc service has logged, else that of
// the request, else, for a malformed request, which Envoy gives no id, a new one.
func requestID(d *inbound.Dialect) []*corev3.HeaderValueOption {
	const request, said = "%REQ(x-request-id)%", "%DYNAMIC_METADATA(" + envoy.Metadata + ":" +
		envoy.MetadataRequestID + ")%"
	set := []*corev3.HeaderValueOption{header("x-request-id", "%UNIQUE_ID%"), header("x-request-id", request),
		header("x-request-id", said)}
	if d.RequestIDHeader != "" {
		set = append(set, header(d.RequestIDHeader, request), header(d.RequestIDHeader, said))
	}
	return set
}

// errorBody returns an error in OpenAI's form.
func errorBody(e *openai.Error) map[string]any {
	return map[string]any{"error": map[string]any{"message": e.Message, "type": e.Type, "param": nil,
		"code": string(e.Code)}}
}
