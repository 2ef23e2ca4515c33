package xds

import (
	"errors"
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// Names of a gateway's resources. The prefix makes them recognisable in Envoy's reports.
func listenerName(g *configv1.Gateway) string      { return envoy.GatewayListener + g.GetName() }
func plainListenerName(g *configv1.Gateway) string { return listenerName(g) + "/plain" }
func routesName(g *configv1.Gateway) string        { return listenerName(g) + "/routes" }

// A socket is an address that a listener of an earlier object binds.
type socket struct {
	field   string
	address string
	port    uint32
	owner   string
}

// claim takes the gateway's sockets, or returns the conflict: Envoy refuses two listeners on one socket.
func (b *builder) claim(g *configv1.Gateway) error {
	address := g.ListenAddress()
	if ip, err := netip.ParseAddr(address); err != nil || ip.Zone() != "" {
		return fmt.Errorf("address: %q is not an IP address", address)
	}
	if g.GetPort() != 0 && g.GetPort() == g.GetPlainHttpPort() {
		return errors.New("plain_http_port: is the same as port")
	}
	claims := []socket{
		{"port", address, g.GetPort(), fmt.Sprintf("gateway %q", g.GetName())},
		{"plain_http_port", address, g.GetPlainHttpPort(), fmt.Sprintf("gateway %q", g.GetName())},
	}
	return b.take(claims...)
}

// take takes all of the sockets, or none.
func (b *builder) take(claims ...socket) error {
	for _, c := range claims {
		if c.port > 65535 {
			return fmt.Errorf("%s: %d is above 65535", c.field, c.port)
		}
		for _, s := range b.sockets {
			if c.port != 0 && s.port == c.port && s.address == c.address {
				return fmt.Errorf("%s: %s listens on %s port %d already", c.field, s.owner, c.address, c.port)
			}
		}
	}
	b.sockets = append(b.sockets, claims...)
	return nil
}

// listener returns the HTTPS listener of a gateway, whose clients may present certificates of an issuer if that is not
// nil.
func listener(g *configv1.Gateway, clients *configv1.CertificateIssuer) *listenerv3.Listener {
	secure, connections := serverTLS(g.CertificateName()), connections(g)
	if clients != nil {
		takeCertificates(secure, connections, g, clients)
	}
	return &listenerv3.Listener{
		Name:                          listenerName(g),
		Address:                       socketAddress(g.ListenAddress(), g.GetPort()),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		FilterChains: []*listenerv3.FilterChain{{
			TransportSocketConnectTimeout: seconds(10),
			TransportSocket:               transportSocket(secure),
			Filters:                       []*listenerv3.Filter{connectionManager(connections)},
		}},
	}
}

// connectionBuffer bounds the buffer of one connection. The limit of bodies, in the routes, is larger.
const connectionBuffer = 32 << 10

func connectionManager(m *hcmv3.HttpConnectionManager) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(m)},
	}
}

// serverTLS uses a certificate from SDS, so that a new one does not change the listener.
func serverTLS(certificate string) *tlsv3.DownstreamTlsContext {
	c := shownCertificate(certificate)
	c.AlpnProtocols = []string{"h2", "http/1.1"}
	return &tlsv3.DownstreamTlsContext{CommonTlsContext: c}
}

func shownCertificate(name string) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsParams: tlsVersions(),
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{
			Name: secretName(name), SdsConfig: ads(),
		}},
	}
}

// ads returns the config source of resources that come over the bootstrap's stream.
func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

func socketAddress(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
