package envoygateway

import (
	"errors"
	"fmt"
	"iter"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// Own has the resources of an Envoy of the gateway, by name. They are shared and must not be modified.
type Own struct {
	clusters  map[string]*clusterv3.Cluster
	secrets   map[string]*tlsv3.Secret
	listeners map[string]*listenerv3.Listener
	routes    map[string]*routev3.RouteConfiguration
	filters   map[string]*corev3.TypedExtensionConfig
}

// OwnOf sorts resources.
func OwnOf(all iter.Seq[proto.Message]) Own {
	o := Own{map[string]*clusterv3.Cluster{}, map[string]*tlsv3.Secret{}, map[string]*listenerv3.Listener{},
		map[string]*routev3.RouteConfiguration{}, map[string]*corev3.TypedExtensionConfig{}}
	for m := range all {
		switch m := m.(type) {
		case *clusterv3.Cluster:
			o.clusters[m.GetName()] = m
		case *tlsv3.Secret:
			o.secrets[m.GetName()] = m
		case *listenerv3.Listener:
			o.listeners[m.GetName()] = m
		case *routev3.RouteConfiguration:
			o.routes[m.GetName()] = m
		case *corev3.TypedExtensionConfig:
			o.filters[m.GetName()] = m
		}
	}
	return o
}

// A gateway is what a listener of others is given of a Gateway.
type gateway struct {
	name    string
	host    *routev3.VirtualHost
	manager *hcmv3.HttpConnectionManager
	filters []*hcmv3.HttpFilter // in front of the router; all are disabled
	always  []string            // names of those that are enabled on entry routes which do not say otherwise
}

// gateway reads what an Envoy of ours has of a Gateway. Names of filters get the Gateway's, so that several can be in
// one listener.
func (o Own) gateway(name string) (*gateway, error) {
	listener := o.listeners[envoy.GatewayListener+name]
	if listener == nil {
		return nil, fmt.Errorf("there is no Gateway %q", name)
	}
	found := managers(listener)
	if len(found) != 1 {
		return nil, fmt.Errorf("the Gateway %q has no HTTP listener", name)
	}
	m := xds.Confined(found[0].manager)
	routes := o.routes[m.GetRds().GetRouteConfigName()]
	if len(routes.GetVirtualHosts()) == 0 {
		return nil, fmt.Errorf("the Gateway %q has no routes", name)
	}
	// A further host is for other names than the Gateway's, which here are those of the HTTPRoute.
	g := &gateway{name: name, host: routes.GetVirtualHosts()[0], manager: m}
	for _, f := range m.GetHttpFilters()[:len(m.GetHttpFilters())-1] {
		if f.GetConfigDiscovery() != nil { // which Envoy Gateway does not serve
			config := o.filters[f.GetName()]
			if config == nil {
				return nil, fmt.Errorf("the Gateway %q lacks the filter %s", name, f.GetName())
			}
			f.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: config.GetTypedConfig()}
		}
		f.Name = g.filter(f.GetName())
		if !f.GetDisabled() {
			g.always = append(g.always, f.GetName())
		}
		f.Disabled = true
		g.filters = append(g.filters, f)
	}
	return g, nil
}

// filter returns the name of a filter in a listener of others.
func (g *gateway) filter(name string) string { return name + "/" + g.name }

// renamed returns the settings of filters on a route.
func (g *gateway) renamed(settings map[string]*anypb.Any) map[string]*anypb.Any {
	out := make(map[string]*anypb.Any, len(settings))
	for name, s := range settings {
		out[g.filter(name)] = s
	}
	return out
}

// A managed is a filter of a listener that has HTTP settings.
type managed struct {
	filter  *listenerv3.Filter
	manager *hcmv3.HttpConnectionManager
}

// managers returns the HTTP settings of all filter chains of a listener. Those that cannot be read are left out.
func managers(l *listenerv3.Listener) (all []managed) {
	chains := l.GetFilterChains()
	if c := l.GetDefaultFilterChain(); c != nil {
		chains = append(chains[:len(chains):len(chains)], c)
	}
	for _, chain := range chains {
		for _, f := range chain.GetFilters() {
			m := &hcmv3.HttpConnectionManager{}
			if f.GetTypedConfig().MessageIs(m) && f.GetTypedConfig().UnmarshalTo(m) == nil {
				all = append(all, managed{f, m})
			}
		}
	}
	return all
}

var errNoRouter = errors.New("its last filter is no router")

func pack(m proto.Message) (*anypb.Any, error) {
	a := &anypb.Any{}
	return a, anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true})
}
