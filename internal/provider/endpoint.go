package provider

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// An Endpoint is the address to which Envoy connects for a provider.
type Endpoint configv1.Endpoint

// Authority returns the provider's host header: it has the port if that is not the scheme's default.
func (e Endpoint) Authority() string {
	standard := uint32(80)
	switch {
	case e.Pipe != "":
		return "localhost"
	case e.TLS:
		standard = 443
	}
	if e.Port != standard {
		return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	if strings.Contains(e.Host, ":") {
		return "[" + e.Host + "]"
	}
	return e.Host
}

// Endpoint returns the endpoint of a provider: that of its configuration, or else the vendor's default.
func (p Provider) Endpoint(c *configv1.Provider) (Endpoint, error) {
	base := cmp.Or(c.GetEndpoint(), p.DefaultEndpoint)
	if c.GetEndpoint() == "" && p.BaseURL != nil {
		var err error
		if base, err = p.BaseURL(c); err != nil {
			return Endpoint{}, err
		}
	}
	if base == "" {
		return Endpoint{}, fmt.Errorf("is required, %s has none of its own", c.GetVendor())
	}
	return ParseEndpoint(base)
}

// ParseEndpoint parses a base URL in the format of the configuration.
func ParseEndpoint(base string) (Endpoint, error) {
	e, err := configv1.ParseEndpoint(base)
	return Endpoint(e), err
}
