package xds

import (
	"encoding/json"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// plainListener refuses every request without TLS. It does not redirect: the client has already sent its key in clear
// text, and a redirect would hide that.
func plainListener(g *configv1.Gateway) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:                          plainListenerName(g),
		Address:                       socketAddress(g.ListenAddress(), g.GetPlainHttpPort()),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{connectionManager(&hcmv3.HttpConnectionManager{
				StatPrefix:                   "plain",
				CodecType:                    hcmv3.HttpConnectionManager_AUTO,
				UseRemoteAddress:             wrapperspb.Bool(true),
				AlwaysSetRequestIdInResponse: true,
				PreserveExternalRequestId:    true,
				RequestHeadersTimeout:        seconds(5),
				RequestTimeout:               seconds(10),
				CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
					IdleTimeout:                  seconds(30),
					HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_REJECT_REQUEST,
				},
				LocalReplyConfig: localReplies(),
				RouteSpecifier:   &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: refuseAll()},
				HttpFilters:      []*hcmv3.HttpFilter{router()},
			})},
		}},
	}
}

func refuseAll() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: "plain", VirtualHosts: []*routev3.VirtualHost{
		refusing("https_required", 403, openai.CodeHTTPSRequired.New(
			"Plain HTTP is not accepted. Use https://, and replace the key that was sent in clear."))}}
}

// refusing returns what answers all requests with an error, unless something else has their host.
func refusing(route string, status uint32, why *openai.Error) *routev3.VirtualHost {
	text, err := json.Marshal(errorBody(why))
	if err != nil {
		panic(err) // a map of strings and nil
	}
	return &routev3.VirtualHost{
		Name:                 "all",
		Domains:              []string{"*"},
		ResponseHeadersToAdd: []*corev3.HeaderValueOption{header("content-type", "application/json")},
		Routes: []*routev3.Route{{
			Name:  route,
			Match: prefix("/"),
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
				Status: status,
				Body:   inline(string(text)),
			}},
		}},
	}
}

// header sets a header of a response, and replaces an existing one.
func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
