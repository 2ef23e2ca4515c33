// Package webhook posts messages to addresses that are not trusted, signed as Standard Webhooks defines it
// (https://github.com/standard-webhooks/standard-webhooks).
//
// A person who may configure an address must not reach what only the process can reach. So every connection is checked
// once its address is known, and redirects are not followed. What posts elsewhere, such as e-mail, uses the dialers of
// this package.
package webhook

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
	// Timeout bounds a whole request.
	Timeout   = 15 * time.Second
	maxHeader = 64 << 10 // of an answer, in bytes
)

// A Client posts to webhooks. It is safe for concurrent use.
type Client struct{ secure, plain *http.Client }

// New returns a client that reaches public addresses, and those in the networks. Without TLS it reaches only the
// latter. The address of the connection counts, not the name. The settings are for tests.
func New(networks []netip.Prefix, settings ...func(*net.Dialer, *http.Transport)) (*Client, error) {
	secure, plain, err := Dialers(networks)
	if err != nil {
		return nil, err
	}
	return &Client{secure: newClient(secure, settings), plain: newClient(plain, settings)}, nil
}

// Dialers returns what connects to public addresses and to those in the networks, for connections with TLS, and what
// connects only to the latter, for those without.
func Dialers(networks []netip.Prefix) (secure, plain *net.Dialer, err error) {
	var v4, v6 []netip.Prefix
	for _, p := range networks {
		switch {
		case !p.IsValid() || p.Addr().Is4In6():
			return nil, nil, fmt.Errorf("webhooks: %s is no network such as 10.0.0.0/8", p)
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
	return newDialer(ssrf.New(allowed...)), newDialer(ssrf.New(nothingElse...)), nil
}

// newDialer returns a dialer whose Control is called for every connection, with the resolved address.
func newDialer(g *ssrf.Guardian) *net.Dialer {
	return &net.Dialer{Timeout: connectTimeout, Control: g.Safe}
}

func newClient(dialer *net.Dialer, settings []func(*net.Dialer, *http.Transport)) *http.Client {
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
		Timeout:       Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Patience replaces the bound of a whole request, for tests.
func (c *Client) Patience(d time.Duration) { c.secure.Timeout, c.plain.Timeout = d, d }

// Do sends a request of another form than Post's, by the same rules. The URL must be http or https.
func (c *Client) Do(r *http.Request) (*http.Response, error) { return c.of(r.URL.Scheme).Do(r) }

// of returns the client for a URL's scheme.
func (c *Client) of(scheme string) *http.Client {
	if scheme == "https" {
		return c.secure
	}
	return c.plain
}
