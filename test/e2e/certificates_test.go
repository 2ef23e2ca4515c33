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
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/harness"
)

// An issuing is an authority of client certificates.
type issuing struct {
	t    *testing.T
	leaf *x509.Certificate
	key  *ecdsa.PrivateKey
	made int64
}

func newIssuing(t *testing.T) *issuing {
	i := &issuing{t: t, made: 1}
	i.leaf = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	pair := i.sign(i.leaf)
	i.leaf, i.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return i
}

func (i *issuing) sign(template *x509.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(i.t, err)
	by := i.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.leaf, &key.PublicKey, by)
	require.NoError(i.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(i.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// client returns the certificate of an identity.
func (i *issuing) client(identity string) tls.Certificate {
	u, err := url.Parse(identity)
	require.NoError(i.t, err)
	i.made++
	return i.sign(&x509.Certificate{SerialNumber: big.NewInt(i.made), URIs: []*url.URL{u},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func (i *issuing) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.leaf.Raw}))
}

func (i *issuing) crl(revoked ...tls.Certificate) string {
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour),
		NextUpdate: time.Now().Add(time.Hour)}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, i.leaf, i.key)
	require.NoError(i.t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

const identityOfWeb = "spiffe://corp.test/ns/ml/sa/web"

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// asking returns what asks the gateway with a certificate, on a connection of its own each time.
func asking(t *testing.T, g *gateway, c tls.Certificate) func(header ...string) (int, string) {
	transport := g.Client.Transport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &c, nil
	}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	return func(header ...string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
}

// TestCertificatesActAsKeys: clients present certificates in place of keys. Nobody else can say whose certificate a
// client has, but a proxy that may.
func TestCertificatesActAsKeys(t *testing.T) {
	const forwarded = "x-forwarded-client-cert"
	g := startRun(t, t.TempDir())
	key := gjson.Get(harness.Must(t, "", "key", "create", "--data", g.Dir, "--name", "ml", "--models", "echo/*", "-o",
		"json"), "id").Str
	authority := newIssuing(t)
	web, edge := authority.client(identityOfWeb), authority.client("spiffe://corp.test/ns/edge/sa/proxy")
	other, stranger := authority.client("spiffe://corp.test/ns/other"), newIssuing(t).client(identityOfWeb)
	apply := func(more string) {
		harness.Must(t, "kind: CertificateIssuer\nname: corp\nbindings:\n"+
			"- {key: "+key+", identity: \"spiffe://corp.test/ns/ml/*\"}\n"+more+"ca: |\n"+indented(authority.ca()), "config", "apply", "--data", g.Dir, "-f", "-")
	}
	asWeb := asking(t, g, web)
	status, body := asWeb(forwarded, "URI="+identityOfWeb)
	require.Equal(t, 401, status, "without an issuer a header says nothing: %s", body)
	require.Contains(t, body, "didn't provide an API key")

	apply("")
	harness.Eventually(t, "the issuer in force", func() error {
		if status, body := asWeb(); status != 200 {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	require.Contains(t, g.WaitFor(t, `"user":"`+identityOfWeb+`"`), `"key_id":"`+key+`"`)
	status, body = asking(t, g, other)()
	require.Equal(t, 401, status, body)
	require.Contains(t, body, "bound to no API key")
	for _, forged := range []string{"URI=" + identityOfWeb, `x="`, "URI=" + identityOfWeb + ","} {
		status, body = asking(t, g, other)(forwarded, forged)
		require.Equal(t, 401, status, "what a client says of its certificate is not believed: %s", body)
	}
	status, body = asking(t, g, stranger)()
	require.Zero(t, status, "a certificate of another authority: %s", body)
	status, body = asking(t, g, tls.Certificate{})(forwarded, "URI="+identityOfWeb)
	require.Equal(t, 401, status, body)
	status, body = asking(t, g, tls.Certificate{})("authorization", "Bearer "+g.Key)
	require.Equal(t, 200, status, "a key is good, too: %s", body)

	const byProxies = "proxies: [\"spiffe://corp.test/ns/edge/*\"]\n"
	apply(byProxies)
	harness.Eventually(t, "the proxies in force", func() error {
		if status, _ := asking(t, g, edge)(forwarded, "Hash=ab;URI="+identityOfWeb); status != 200 {
			return errStill
		}
		return nil
	})
	for _, forged := range []string{"Hash=ab;URI=spiffe://corp.test/ns/edge/sa/proxy", "URI=" + identityOfWeb,
		"URI=" + identityOfWeb + ",Hash=ab;URI=spiffe://corp.test/ns/edge/sa/proxy"} {
		status, body = asking(t, g, tls.Certificate{})(forwarded, forged)
		require.Equal(t, 401, status, "without a certificate a client is no proxy: %s", body)
		status, body = asking(t, g, other)(forwarded, forged)
		require.Equal(t, 401, status, "nor with another's: %s", body)
	}
	apply(byProxies + "required: true\ncrl: |\n" + indented(authority.crl(other)))
	harness.Eventually(t, "the revocation in force", func() error {
		if status, _ := asking(t, g, other)(); status != 0 {
			return errStill
		}
		return nil
	})
	status, body = asking(t, g, tls.Certificate{})("authorization", "Bearer "+g.Key)
	require.Zero(t, status, "everybody needs a certificate: %s", body)
	status, body = asking(t, g, edge)(forwarded, "Hash=ab;URI=spiffe://corp.test/ns/ml/sa/batch")
	require.Equal(t, 200, status, body)
	g.WaitFor(t, `"user":"spiffe://corp.test/ns/ml/sa/batch"`)
	status, body = asWeb(forwarded, "URI=spiffe://corp.test/ns/ml/sa/admin")
	require.Equal(t, 200, status, body)
	require.NotContains(t, g.Output(), "sa/admin", "a client that is no proxy is itself")

	harness.Must(t, "", "key", "revoke", "--data", g.Dir, key)
	status, body = asWeb()
	require.Equal(t, 401, status, body)
}
