package xds

import (
	"strconv"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
)

func cel(expression string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
				TypedConfig: pack(&celv3.ExpressionFilter{Expression: expression})},
		},
	}}
}

// ofJobs matches requests for the job service.
func ofJobs() *accesslogv3.AccessLogFilter { return cel("xds.route_name == '" + envoy.RouteJobs + "'") }

// both evaluates b only if a matches.
func both(a, b *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{a, b}},
	}}
}

// either evaluates each filter only if none before it matches.
func either(all ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{
		OrFilter: &accesslogv3.OrFilter{Filters: all},
	}}
}

// has matches a request with a key in the gateway's metadata.
func has(key string) *accesslogv3.AccessLogFilter {
	return metadata(key, &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}},
		false)
}

// lacks matches a request without a key in the gateway's metadata. A value is never empty.
func lacks(key string) *accesslogv3.AccessLogFilter {
	return metadata(key, &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{
		StringMatch: exactly("")}}, true)
}

func metadata(key string, value *matcherv3.ValueMatcher, without bool) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{
		MetadataFilter: &accesslogv3.MetadataFilter{
			Matcher: &matcherv3.MetadataMatcher{Filter: envoy.Metadata, Value: value,
				Path: []*matcherv3.MetadataMatcher_PathSegment{
					{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}}},
			MatchIfKeyNotFound: wrapperspb.Bool(without),
		},
	}}
}

// atLeast matches a status that is not below another. Envoy requires a runtime key, which nobody sets.
func atLeast(status uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op:    accesslogv3.ComparisonFilter_GE,
			Value: &corev3.RuntimeUInt32{DefaultValue: status, RuntimeKey: "modelgate.log.status"},
		}},
	}}
}

// flags matches a request with one of the response flags, or without names with any flag.
func flags(names ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: names},
	}}
}

// ofEnvoy matches a status of Envoy's own answer, not the ext_proc service's.
func ofEnvoy(code int) *accesslogv3.AccessLogFilter {
	return cel("response.code == " + strconv.Itoa(code) + " && !response.code_details.startsWith('" +
		envoy.ImmediateDetailPrefix + "')")
}
