package configv1

import (
	"cmp"
	"crypto/x509"
	"strings"
)

// GatewayName returns the name of the gateway whose clients may present the certificates.
func (c *CertificateIssuer) GatewayName() string { return cmp.Or(c.GetGateway(), "default") }

func (v *validator) certificateIssuer(c *CertificateIssuer) {
	v.label("name", c.GetName())
	v.optionalLabel("gateway", c.GetGateway())
	v.pemCertificates("ca", c.GetCa())
	if c.GetCrl() != "" {
		v.pemBlocks("crl", c.GetCrl(), "certificate revocation list", "X509 CRL", func(der []byte) error {
			_, err := x509.ParseRevocationList(der)
			return err
		})
	}
	if n := len(c.GetProxies()); n > maxBindings {
		v.fail("proxies", "must be at most %d", maxBindings)
	}
	for i, p := range c.GetProxies() {
		v.identity(element("proxies", i), p)
	}
	if n := len(c.GetBindings()); n == 0 || n > maxBindings {
		v.fail("bindings", "must be 1 to %d", maxBindings)
	}
	for i, b := range c.GetBindings() {
		at := element("bindings", i)
		v.id(at+".key", b.GetKey())
		v.identity(at+".identity", b.GetIdentity())
	}
}

// identity accepts a pattern of the names in certificates. One that everybody fits would be a mistake.
func (v *validator) identity(field, pattern string) {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if strings.Trim(pattern, "*") == "" || strings.ContainsFunc(pattern, notPrintable) {
		v.fail(field, "must be a URI such as spiffe://example.org/ns/ml/*, or a DNS name, without spaces")
		return
	}
	v.text(field, pattern)
}
