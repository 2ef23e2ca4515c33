package xds

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// GatewayListener returns the HTTPS listener of a gateway, for an Envoy that gets its listeners from elsewhere. Its
// routes, filters and certificate refer to the resources that Build makes for the same gateway.
func GatewayListener(g *configv1.Gateway) *listenerv3.Listener { return listener(g, nil) }
