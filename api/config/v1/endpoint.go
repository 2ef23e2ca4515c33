package configv1

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// An Endpoint is the destination of a URL in the configuration.
type Endpoint struct {
	TLS  bool
	Host string // name or address; empty if Pipe is set
	Port uint32
	Pipe string // path of a Unix socket
	Path string // prefix of every request path, without a trailing slash
}

var (
	errScheme = errors.New("must begin with https://, http:// or unix://")
	errNoHost = errors.New("has no host")
	errPort   = errors.New("the port must be between 1 and 65535")
)

// ParseEndpoint reads a base URL: https://host[:port][/path], http:// likewise, or unix:///path of a socket.
func ParseEndpoint(base string) (Endpoint, error) {
	u, err := url.Parse(base)
	if err != nil {
		return Endpoint{}, errors.New("must be a URL such as https://host/path")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, errors.New("must have no user, query or fragment")
	}
	// The unescaped path becomes a prefix of others, where these characters would have a meaning.
	if strings.ContainsAny(u.Path, "?#") ||
		strings.ContainsFunc(u.Path, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return Endpoint{}, errors.New("must have no escaped ?, #, space or control character in its path")
	}
	if u.Scheme == "unix" {
		if u.Host != "" || u.Path == "" {
			return Endpoint{}, errors.New("a Unix socket is written unix:///path")
		}
		return Endpoint{Pipe: u.Path}, nil
	}
	return endpointOf(u)
}

// endpointOf returns the endpoint of an HTTP URL.
func endpointOf(u *url.URL) (Endpoint, error) {
	e := Endpoint{Host: u.Hostname(), Port: 80, Path: strings.TrimRight(u.Path, "/")}
	switch u.Scheme {
	case "https":
		e.TLS, e.Port = true, 443
	case "http":
	default:
		return Endpoint{}, errScheme
	}
	if e.Host == "" {
		return Endpoint{}, errNoHost
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Endpoint{}, errPort
		}
		e.Port = uint32(n)
	}
	return e, nil
}

// Endpoint returns the endpoint of a webhook.
func (w *Webhook) Endpoint() (Endpoint, error) { return webhookEndpoint(w.GetUrl()) }

// Endpoint returns the address of a receiver, which is where its credential may be sent.
func (r *AlertReceiver) Endpoint() (Endpoint, error) {
	switch {
	case r.GetEmail() != nil:
		return Endpoint{Host: r.GetEmail().GetHost(), Port: r.GetEmail().PortNumber(),
			TLS: r.GetEmail().GetTls() != SmtpTls_PLAINTEXT}, nil
	case r.GetSlack() != nil:
		return webhookEndpoint("https://" + r.GetSlack().HostName() + "/")
	}
	return webhookEndpoint(r.GetWebhook().GetUrl())
}

// Endpoint returns where a checker is, which is where its credential may be sent.
func (c *Checker) Endpoint() (Endpoint, error) { return webhookEndpoint(c.GetUrl()) }

// Endpoint returns the address of a sink, which is where its credential may be sent. Syslog and files have none.
func (s *AuditSink) Endpoint() (Endpoint, error) {
	if s.GetOtlp() != nil {
		return webhookEndpoint(s.GetOtlp().GetEndpoint())
	}
	return webhookEndpoint(s.GetWebhook().GetUrl())
}

// webhookEndpoint reads the URL of a webhook.
func webhookEndpoint(text string) (Endpoint, error) {
	u, err := url.Parse(text)
	var e Endpoint
	if err == nil {
		e, err = endpointOf(u)
	}
	switch {
	case err != nil && !errors.Is(err, errPort), len(text) > maxURL, strings.ContainsFunc(text, unicode.IsSpace):
		return Endpoint{}, fmt.Errorf("must be a URL such as https://host/path, of at most %d bytes", maxURL)
	case u.User != nil, u.Fragment != "":
		return Endpoint{}, errors.New("must have no user and no fragment")
	}
	return e, err
}
