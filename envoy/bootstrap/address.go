package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// An Address is where a service of ours listens: a Unix socket, or a host and a port.
type Address struct {
	Pipe string // path of a Unix socket; the rest is empty then
	Host string // an IP address, or a name that Envoy looks up
	Port uint32
}

// An AddressError is that a text is no address.
type AddressError struct{ error }

// ParseAddress reads unix:///path or host:port. What is wrong with another text is an AddressError.
func ParseAddress(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !strings.HasPrefix(path, "/") {
			return Address{}, AddressError{fmt.Errorf("address %q: a Unix socket is written unix:///path", s)}
		}
		return Address{Pipe: path}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return Address{}, AddressError{fmt.Errorf("address %q: must be host:port or unix:///path", s)}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Address{}, AddressError{fmt.Errorf("address %q: the port is not between 1 and 65535", s)}
	}
	return Address{Host: host, Port: uint32(n)}, nil
}

// discovery is how Envoy finds the address: a name is looked up again and again, since pods come and go behind it.
func (a Address) discovery() clusterv3.Cluster_DiscoveryType {
	if _, err := netip.ParseAddr(a.Host); a.Pipe != "" || err == nil {
		return clusterv3.Cluster_STATIC
	}
	return clusterv3.Cluster_STRICT_DNS
}

func (a Address) endpoints(cluster string) (*endpointv3.ClusterLoadAssignment, error) {
	address := &corev3.Address{}
	switch {
	case a.Pipe != "":
		address.Address = &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Pipe}}
	case a.Host != "" && a.Port != 0:
		address.Address = &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address:       a.Host,
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: a.Port},
		}}
	default:
		return nil, errors.New("it has no address")
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
			}},
		}},
	}, nil
}
