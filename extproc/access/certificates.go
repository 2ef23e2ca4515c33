package access

import (
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/jwtauth"
)

// CertificatesOf returns issuers by the gateways that they are for.
func CertificatesOf(issuers []*configv1.CertificateIssuer) map[string]*configv1.CertificateIssuer {
	byGateway := make(map[string]*configv1.CertificateIssuer, len(issuers))
	for _, c := range issuers {
		byGateway[c.GatewayName()] = c
	}
	return byGateway
}

// ofCertificate returns the key as which a client's certificate acts, or why there is none.
func (d *Directory) ofCertificate(gateway, header string) (key *Client, why string) {
	issuer := d.Certificates[gateway]
	names := identities(header, issuer.GetProxies())
	for _, b := range issuer.GetBindings() {
		i := slices.IndexFunc(names, func(name string) bool { return configv1.Matches(b.GetIdentity(), name) })
		if i < 0 {
			continue
		}
		if key = d.Keyring.ByName(b.GetKey()); key == nil {
			return nil, "The certificate presented is not accepted: the key as which it acts does not exist."
		}
		key.Token = &jwtauth.Principal{Key: b.GetKey(), User: names[i]}
		return key, "The key as which the certificate acts is disabled or expired."
	}
	return nil, "The certificate presented is not accepted: it is bound to no API key. Ask who runs the gateway to bind it, or send a key in an Authorization header."
}

// identities returns the subject alternative names of a client's certificate, of the header in which Envoy tells them.
// The last element is Envoy's, of the connection; those before it are believed if it is a proxy's. Envoy's own has no
// quotes, so that nothing before it can be taken for a part of it, or it for a part of that.
func identities(header string, proxies []string) []string {
	before, last := "", header
	if i := strings.LastIndexByte(header, ','); i >= 0 {
		before, last = header[:i], header[i+1:]
	}
	names := namesOf(last)
	if before != "" && slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(proxies, func(pattern string) bool { return configv1.Matches(pattern, name) })
	}) {
		elements := splitUnquoted(before, ',')
		return namesOf(elements[len(elements)-1])
	}
	return names
}

// namesOf returns the names in an element: its pairs URI and DNS.
func namesOf(element string) []string {
	var names []string
	for _, pair := range splitUnquoted(element, ';') {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		isName := strings.EqualFold(key, "URI") || strings.EqualFold(key, "DNS")
		if value = strings.Trim(value, `"`); isName && value != "" {
			names = append(names, value)
		}
	}
	return names
}

// splitUnquoted splits a text at a separator that is not in quotes.
func splitUnquoted(s string, separator byte) []string {
	var parts []string
	quoted, begin := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			parts, begin = append(parts, s[begin:i]), i+1
		}
	}
	return append(parts, s[begin:])
}
