package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
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

	"github.com/modelgate/modelgate/test/harness"
)

// TestSplitAcrossANetwork runs the parts with mutual TLS between them, as on several machines.
func TestSplitAcrossANetwork(t *testing.T) {
	s := newSplit(t)
	authority := newAuthority(t, s.Dir)
	authority.issue("controlplane")
	authority.issue("dataplane")
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	for i := range s.listen {
		s.listen[i] = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	}
	s.serve = []string{"--xds-cert", file("controlplane.crt"), "--xds-key", file("controlplane.key"), "--xds-ca",
		file("xds-ca.crt")}
	s.client = []string{"--xds-address", s.listen[0], "--xds-cert", file("dataplane.crt"), "--xds-key",
		file("dataplane.key"),
		"--xds-ca", file("xds-ca.crt"), "--xds-name", "controlplane"}
	s.start()

	// Whoever has no certificate of the authority is told nothing.
	stranger := newAuthority(t, t.TempDir())
	stranger.issue("stranger")
	p := harness.Launch(t, nil, "extproc", "--listen", s.socket("stranger"), "--admin", "127.0.0.1:0", "--xds-address",
		s.listen[0],
		"--spool", filepath.Join(stranger.dir, "spool"),
		"--xds-cert", filepath.Join(stranger.dir, "stranger.crt"), "--xds-key", filepath.Join(stranger.dir, "stranger.key"),
		"--xds-ca", file("xds-ca.crt"), "--xds-name", "controlplane")
	p.WaitFor(t, "no stream to the control plane")
	require.NotContains(t, p.Output(), "configuration received")

	// Without certificates the control plane does not serve a network.
	out, err := harness.Command(t, "", "controlplane", "--etcd-endpoints", s.etcd.Endpoint(), "--listen", "0.0.0.0:0",
		"--admin", "127.0.0.1:0",
		"--pepper", file("pepper"), "--admin-token", file("admin-token"))
	require.Error(t, err)
	require.Contains(t, out, "--xds-cert")
}

// An authority issues certificates into a folder.
type authority struct {
	t           *testing.T
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	life        time.Duration // of what it issues
}

func newAuthority(t *testing.T, dir string) *authority {
	a := &authority{t: t, dir: dir, life: time.Hour}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.write("xds-ca", a.certificate)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "xds-ca.crt"), filepath.Join(dir, "xds-ca.key"))
	require.NoError(t, err)
	a.certificate = pair.Leaf // what it issues names its key: Envoy tells authorities of one name apart by that alone
	return a
}

// issue writes NAME.crt and NAME.key, for either end of a connection.
func (a *authority) issue(name string) {
	a.write(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(a.life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) write(name string, template *x509.Certificate) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), signer)
	require.NoError(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der},
		".key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(a.t, os.WriteFile(filepath.Join(a.dir, name+suffix), pem.EncodeToMemory(block), 0o600))
	}
	return key
}
