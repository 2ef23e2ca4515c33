package xds

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	setmetadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// GatewayListener returns the HTTPS listener of a gateway, for an Envoy that gets its listeners from elsewhere. Its
// routes, filters and certificate refer to the resources that Build makes for the same gateway.
func GatewayListener(g *configv1.Gateway) *listenerv3.Listener { return listener(g, nil) }

// enteredFilter is the filter that tells requests of a gateway from others of a shared listener.
const enteredFilter = "mg.entered"

// Confined returns the HTTP settings of a gateway's listener for one whose other routes are not the gateway's. Its
// logs and errors are only for requests that have passed its first filter. What the listener says of the certificates
// of clients is not believed: others decide who may say it.
func Confined(m *hcmv3.HttpConnectionManager) *hcmv3.HttpConnectionManager {
	c := proto.CloneOf(m)
	entered := httpFilter(enteredFilter, &setmetadatav3.Config{Metadata: []*setmetadatav3.Metadata{{
		MetadataNamespace: envoy.Metadata,
		Value: &structpb.Struct{Fields: map[string]*structpb.Value{
			envoy.MetadataEntered: structpb.NewBoolValue(true)}},
	}}})
	c.HttpFilters = append([]*hcmv3.HttpFilter{entered}, c.GetHttpFilters()...)
	for _, f := range c.GetHttpFilters() {
		if isExtProc(f.GetName()) {
			f.Name = extProcFilter
		}
	}
	for _, l := range c.GetAccessLog() {
		l.Filter = both(has(envoy.MetadataEntered), l.GetFilter())
	}
	for _, r := range c.GetLocalReplyConfig().GetMappers() {
		r.Filter = both(has(envoy.MetadataEntered), r.GetFilter())
	}
	return c
}
