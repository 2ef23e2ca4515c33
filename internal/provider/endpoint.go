package provider

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// An Endpoint is where Envoy connects to reach a provider.
type Endpoint struct {
	TLS  bool
	Host string // name or address; empty where Pipe is set
	Port uint32
	Pipe string // path of a Unix socket
	Path string // prefix of every request path, without a trailing slash
}

// Authority returns what a provider gets as its host: it names the port where that is not the scheme's own.
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

// Endpoint returns where a provider of the vendor is: where its configuration says, or else where the vendor serves.
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

// ParseEndpoint reads a base URL: https://host[:port][/path], http:// likewise, or unix:///path of a socket.
func ParseEndpoint(base string) (Endpoint, error) {
	u, err := url.Parse(base)
	if err != nil {
		return Endpoint{}, fmt.Errorf("not a URL: %w", err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, fmt.Errorf("must have no user, query or fragment")
	}
	e := Endpoint{Host: u.Hostname(), Path: strings.TrimRight(u.Path, "/")}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || u.Path == "" {
			return Endpoint{}, fmt.Errorf("a Unix socket is written unix:///path")
		}
		return Endpoint{Pipe: u.Path}, nil
	case "https":
		e.TLS, e.Port = true, 443
	case "http":
		e.Port = 80
	default:
		return Endpoint{}, fmt.Errorf("must begin with https://, http:// or unix://")
	}
	if e.Host == "" {
		return Endpoint{}, fmt.Errorf("has no host")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Endpoint{}, fmt.Errorf("port %q is not between 1 and 65535", p)
		}
		e.Port = uint32(n)
	}
	return e, nil
}
