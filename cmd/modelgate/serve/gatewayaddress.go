package serve

import (
	"net"
	"net/netip"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// gatewayAddress reads the address that Envoy is to listen on, and checks that nobody else does: Envoy would only say
// so in its log. An empty host is every address, and localhost is 127.0.0.1.
func gatewayAddress(listen string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return netip.AddrPort{}, admincli.Misused("--listen %q: must be address:port", listen)
	}
	switch host {
	case "":
		host = "0.0.0.0"
	case "localhost":
		host = "127.0.0.1"
	}
	at, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil {
		return netip.AddrPort{}, admincli.Misused("--listen %q: must be an IP address and a port", listen)
	}
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return netip.AddrPort{}, admincli.Misused("--listen %q: %w", listen, err)
	}
	return at, l.Close()
}
