package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
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

// String writes the address as [ParseAddress] reads it.
func (a Address) String() string {
	if a.Pipe != "" {
		return "unix://" + a.Pipe
	}
	return net.JoinHostPort(a.Host, strconv.FormatUint(uint64(a.Port), 10))
}

// Addresses are where the processes of one service listen: a Unix socket, or one or more hosts and ports. A name may
// lead to several processes.
type Addresses []Address

// ParseAddresses reads unix:///path, or host:port and further ones after commas. What is wrong with another text is an
// AddressError.
func ParseAddresses(s string) (all Addresses, err error) {
	for text := range strings.SplitSeq(s, ",") {
		a, err := ParseAddress(text)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	if len(all) > 1 && slices.ContainsFunc(all, func(a Address) bool { return a.Pipe != "" }) {
		return nil, AddressError{fmt.Errorf("address %q: a Unix socket stands alone", s)}
	}
	return all, nil
}

// pipe is the path of the Unix socket. Empty: they are ports.
func (all Addresses) pipe() string {
	if len(all) == 0 {
		return ""
	}
	return all[0].Pipe
}

// discovery is how Envoy finds the addresses: a name is looked up again and again, since pods come and go behind it.
func (all Addresses) discovery() clusterv3.Cluster_DiscoveryType {
	for _, a := range all {
		if _, err := netip.ParseAddr(a.Host); a.Pipe == "" && err != nil {
			return clusterv3.Cluster_STRICT_DNS
		}
	}
	return clusterv3.Cluster_STATIC
}

func (all Addresses) endpoints(cluster string) (*endpointv3.ClusterLoadAssignment, error) {
	endpoints := &endpointv3.LocalityLbEndpoints{}
	for _, a := range all {
		address, err := a.envoys()
		if err != nil {
			return nil, err
		}
		endpoints.LbEndpoints = append(endpoints.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}}})
	}
	if len(all) == 0 {
		return nil, errNoAddress
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: cluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{endpoints}}, nil
}

var errNoAddress = errors.New("it has no address")

// envoys returns the address as Envoy has it.
func (a Address) envoys() (*corev3.Address, error) {
	switch {
	case a.Pipe != "":
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Pipe}}}, nil
	case a.Host != "" && a.Port != 0:
		return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address:       a.Host,
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: a.Port},
		}}}, nil
	}
	return nil, errNoAddress
}
