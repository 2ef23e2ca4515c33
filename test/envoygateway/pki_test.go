package envoygateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pki has an authority in ca.crt, and certificates of it for either end of a connection.
type pki struct {
	dir       string
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newPKI(t *testing.T, dir string, names ...string) *pki {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	p := &pki{dir: dir}
	p.authority = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	p.key = p.write(t, "ca", p.authority)
	for i, name := range names {
		p.write(t, name, &x509.Certificate{SerialNumber: big.NewInt(int64(i + 2)), DNSNames: []string{name},
			Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	}
	return p
}

func (p *pki) write(t *testing.T, name string, template *x509.Certificate) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer := p.key
	if signer == nil {
		signer = key
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, p.authority, key.Public(), signer)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der},
		".key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(p.file(name+suffix), pem.EncodeToMemory(block), 0o600))
	}
	return key
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

// flags name the files of a certificate, and those of the authority.
func (p *pki) flags(prefix, name string) []string {
	return []string{prefix + "cert", p.file(name + ".crt"), prefix + "key", p.file(name + ".key"), prefix + "ca",
		p.file("ca.crt")}
}

// secrets are those of docs/envoy.md.
func (p *pki) secrets(t *testing.T) string {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(p.file(name))
		require.NoError(t, err)
		return text
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {namespace: envoy-gateway-system, name: modelgate-ca}
stringData: {tls.crt: %q}
---
apiVersion: v1
kind: Secret
metadata: {namespace: envoy-gateway-system, name: modelgate-dataplane-tls}
type: kubernetes.io/tls
stringData: {tls.crt: %q, tls.key: %q}
`, read("ca.crt"), read("dataplane.crt"), read("dataplane.key"))
}
