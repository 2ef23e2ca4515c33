package xds

import (
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/modelgate/modelgate/internal/provider"
)

// maxPipePath is the maximum length of a Unix socket's path in the kernel.
const maxPipePath = 107

// checkEndpoint returns an error for an endpoint that Envoy could not connect to.
func checkEndpoint(e provider.Endpoint) error {
	if e.Pipe != "" {
		if len(e.Pipe) > maxPipePath {
			return fmt.Errorf("endpoint: the path of the socket is longer than %d bytes", maxPipePath)
		}
		return nil
	}
	if ip, err := netip.ParseAddr(e.Host); err == nil && ip.Zone() != "" {
		return fmt.Errorf("endpoint: %q has a zone", e.Host)
	}
	return nil
}

// named reports whether Envoy has to look the endpoint up in DNS.
func named(e provider.Endpoint) bool {
	if e.Pipe != "" {
		return false
	}
	_, err := netip.ParseAddr(e.Host)
	return err != nil
}

// endpoints returns the one endpoint of a cluster. It is part of the cluster instead of EDS: Envoy resolves the
// provider's single name, so the endpoints change only with the cluster.
func endpoints(e provider.Endpoint, cluster string) *endpointv3.ClusterLoadAssignment {
	address := &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: e.Pipe}}}
	if e.Pipe == "" {
		address = socketAddress(e.Host, e.Port)
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
				Address:  address,
				Hostname: e.Authority(),
			}},
		}}}},
	}
}
