package webhooks

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

const (
	connectTimeout = 5 * time.Second
	wholeTimeout   = 15 * time.Second
	maxHeader      = 64 << 10 // of an answer, in bytes
)

// clients send requests to webhooks.
type clients struct{ secure, plain *http.Client }

// of returns the client for a URL's scheme.
func (c clients) of(scheme string) *http.Client {
	if scheme == "https" {
		return c.secure
	}
	return c.plain
}

// newClients returns clients that reach public addresses, and those in the networks. Without TLS they reach only the
// latter. The address of the connection counts, not the name. The settings are for tests.
func newClients(networks []netip.Prefix, settings ...func(*net.Dialer, *http.Transport)) (clients, error) {
	var v4, v6 []netip.Prefix
	for _, p := range networks {
		switch {
		case !p.IsValid() || p.Addr().Is4In6():
			return clients{}, fmt.Errorf("webhooks: %s is no network such as 10.0.0.0/8", p)
		case p.Addr().Is4():
			v4 = append(v4, p)
		default:
			v6 = append(v6, p)
		}
	}
	allowed := []ssrf.Option{ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)}
	nothingElse := append(allowed[:len(allowed):len(allowed)],
		ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("0.0.0.0/0")),
		ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("::/0")))
	return clients{
		secure: newClient(ssrf.New(allowed...), settings),
		plain:  newClient(ssrf.New(nothingElse...), settings),
	}, nil
}

func newClient(g *ssrf.Guardian, settings []func(*net.Dialer, *http.Transport)) *http.Client {
	// Control is called for every connection, with the resolved address.
	dialer := &net.Dialer{Timeout: connectTimeout, Control: g.Safe}
	transport := &http.Transport{
		Proxy:                  nil, // a proxy from the environment would connect for us
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableKeepAlives:      true,
		DisableCompression:     true,
	}
	for _, set := range settings {
		set(dialer, transport)
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       wholeTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
