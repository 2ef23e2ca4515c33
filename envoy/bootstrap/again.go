package bootstrap

import (
	"fmt"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
)

// againListener takes the attempts that the ext_proc service makes itself, beside its socket. They name their cluster,
// and bring the credential with them: the listener adds nothing. Whoever reaches it could send to providers, but not
// as the gateway.
func againListener(extProc string) (*listenerv3.Listener, error) {
	var failed error
	pack := func(m proto.Message) *anypb.Any {
		packed, err := anypb.New(m)
		if err != nil {
			failed = fmt.Errorf("building the listener of attempts: %w", err)
		}
		return packed
	}
	details := &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: envoy.HeaderDetails, Value: "%RESPONSE_CODE_DETAILS%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
	all := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: accesslogv3.ComparisonFilter_GE, Value: &corev3.RuntimeUInt32{DefaultValue: 100, RuntimeKey: "mg.again"}}}}}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:                 "again",
		CodecType:                  hcmv3.HttpConnectionManager_HTTP1,
		GenerateRequestId:          wrapperspb.Bool(false),
		SkipXffAppend:              true,
		SchemeHeaderTransformation: &corev3.SchemeHeaderTransformation{MatchUpstream: true},
		// The ext_proc service bounds the time of an attempt, and the client's request its idle time.
		StreamIdleTimeout: durationpb.New(0),
		LocalReplyConfig: &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
			{Filter: all, HeadersToAdd: []*corev3.HeaderValueOption{details}}}},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: againRoutes()},
		HttpFilters: []*hcmv3.HttpFilter{{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{
			TypedConfig: pack(&routerv3.Router{SuppressEnvoyHeaders: true})}}},
	}
	l := &listenerv3.Listener{
		Name: "again",
		Address: &corev3.Address{Address: &corev3.Address_Pipe{
			Pipe: &corev3.Pipe{Path: envoy.AgainSocket(extProc), Mode: 0o600}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(manager)},
		}}}},
	}
	return l, failed
}

func againRoutes() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: "again",
		VirtualHosts: []*routev3.VirtualHost{{
			Name: "all", Domains: []string{"*"},
			ResponseHeadersToRemove: []string{envoy.HeaderDetails}, // a provider's
			Routes: []*routev3.Route{{
				Name:  "again",
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				RequestHeadersToRemove: []string{"x-request-id", "x-forwarded-proto", "x-forwarded-for",
					"x-envoy-external-address", envoy.HeaderCluster},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier:     &routev3.RouteAction_ClusterHeader{ClusterHeader: envoy.HeaderCluster},
					HostRewriteSpecifier: &routev3.RouteAction_AutoHostRewrite{AutoHostRewrite: wrapperspb.Bool(true)},
					Timeout:              durationpb.New(0),
				}},
			}},
		}},
	}
}
