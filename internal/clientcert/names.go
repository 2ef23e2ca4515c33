// Package clientcert reads whose certificate a client has presented, in the header x-forwarded-client-cert.
//
// Envoy writes the names of a certificate into that header as they are, so a name with a separator in it looks like
// two names. So the names of the connection's certificate are never taken from the header's text: Envoy adds the
// certificate itself, and this package reads the fields of it. The most likely mistake is to read a name from the text
// because it is shorter.
package clientcert

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/memo"
)

// Names are the names in a certificate by which a client is known: those of its subject alternative names that are
// valid. Hosts are in lower case.
type Names struct{ URIs, Hosts []string }

// First returns the first name that a pattern fits. A pattern with ":" or "/" is one of URIs, any other one of hosts:
// a host that is written as a URI is none, nor is a URI that ends as a host.
func (n Names) First(pattern string) (string, bool) {
	names := n.Hosts
	if strings.ContainsAny(pattern, ":/") {
		names = n.URIs
	} else {
		pattern = strings.ToLower(pattern)
	}
	i := slices.IndexFunc(names, func(name string) bool { return configv1.Matches(pattern, name) })
	if i < 0 {
		return "", false
	}
	return names[i], true
}

// maxKnown bounds the certificates that a Reader remembers, of some KiB each.
const maxKnown = 512

// A Reader reads headers, and remembers the certificates that it has read. It is safe for concurrent use.
type Reader struct{ known *memo.Memo[string, Names] }

// NewReader returns a Reader that remembers nothing yet.
func NewReader() *Reader { return &Reader{memo.New[string, Names](maxKnown)} }

var (
	errNoCertificate = errors.New("the gateway did not get it whole")
	errUnreadable    = errors.New("it cannot be read")
)

// Of returns the names of a client. They come from the connection's certificate, which Envoy adds last. If one of
// the patterns says that it belongs to a proxy, they are the names that the proxy states before it.
func (r *Reader) Of(header string, proxies []string) (Names, error) {
	before, certificate, ok := cutOwn(header)
	if !ok {
		return Names{}, errNoCertificate
	}
	names, err := r.parse(certificate)
	if err != nil || before == "" {
		return names, err
	}
	for _, p := range proxies {
		if _, ok := names.First(p); ok {
			return r.stated(before)
		}
	}
	return names, nil
}

// cutOwn returns what Envoy added for the connection's certificate, and the text before it. That is
//
//	By=<name of the gateway's own certificate>;Hash=<64 digits>;Cert="<certificate>"
//
// with By as often as there are such names, and a comma before it if there is other text.
func cutOwn(header string) (before, certificate string, ok bool) {
	const cert, hash, digits = `;Cert="`, "Hash=", 64
	i := strings.LastIndex(header, cert)
	if i < len(hash)+digits {
		return "", "", false
	}
	certificate = header[i+len(cert):]
	at := i - digits - len(hash)
	if strings.IndexByte(certificate, '"') != len(certificate)-1 || header[at:at+len(hash)] != hash ||
		strings.ContainsAny(header[at:i], `,;"`) {
		return "", "", false
	}
	for at > 0 && header[at-1] == ';' {
		begin := strings.LastIndexAny(header[:at-1], ",;") + 1
		if !strings.HasPrefix(header[begin:], "By=") {
			return "", "", false
		}
		at = begin
	}
	if at > 0 && header[at-1] != ',' {
		return "", "", false
	}
	return header[:max(0, at-1)], certificate[:len(certificate)-1], true
}

// parse returns the names in a certificate: PEM that is percent-encoded.
func (r *Reader) parse(encoded string) (Names, error) {
	if names, ok := r.known.Find(encoded); ok {
		return names, nil
	}
	text, err := url.PathUnescape(encoded)
	if err != nil {
		return Names{}, errUnreadable
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
		return Names{}, errUnreadable
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Names{}, errUnreadable
	}
	names, err := namesOf(certificate)
	if err != nil {
		return Names{}, err
	}
	return r.known.Keep(strings.Clone(encoded), names), nil // the header is in a buffer that is used again
}

// The tags of names, by RFC 5280, 4.2.1.6.
const (
	tagHost = 2
	tagURI  = 6
)

// namesOf returns the names in a certificate, byte by byte as they are: package x509 has parsed URIs, which it writes
// in another way.
func namesOf(c *x509.Certificate) (n Names, err error) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		var all []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &all); err != nil || len(rest) > 0 {
			return Names{}, errUnreadable
		}
		for _, name := range all {
			if name.Class == asn1.ClassContextSpecific {
				n.add(name.Tag, string(name.Bytes))
			}
		}
	}
	// A workload has one SPIFFE id. By the standard, a certificate with more is invalid.
	ids := slices.DeleteFunc(slices.Clone(n.URIs), func(u string) bool { return !isSPIFFE(u) })
	if len(ids) > 1 {
		return Names{}, errors.New("it has more than one SPIFFE id")
	}
	return n, nil
}

func (n *Names) add(tag int, name string) {
	switch {
	case tag == tagURI && validURI(name):
		n.URIs = append(n.URIs, name)
	case tag == tagHost && host.MatchString(name):
		n.Hosts = append(n.Hosts, strings.ToLower(name))
	}
}

var (
	// host is the name of one host: a wildcard names none.
	host = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)
	uri  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9:/?#\[\]@!$&'()*+,;=._~%-]+$`)
	// spiffe is https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md#2-spiffe-identity.
	spiffe  = regexp.MustCompile(`^spiffe://[a-z0-9._-]+(?:/[A-Za-z0-9._-]+)*$`)
	dotPath = regexp.MustCompile(`/\.\.?(?:/|$)`)
)

func isSPIFFE(name string) bool { return len(name) >= 7 && strings.EqualFold(name[:7], "spiffe:") }

// validURI accepts an absolute URI. A SPIFFE id must follow its standard, without escapes and relative segments, so
// that no two texts are the same id.
func validURI(name string) bool {
	if isSPIFFE(name) {
		return spiffe.MatchString(name) && !dotPath.MatchString(name)
	}
	return uri.MatchString(name)
}
