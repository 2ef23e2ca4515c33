package hostile

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// An authority signs certificates with any names.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign}}
	pair := a.sign(a.cert)
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

func (a *authority) sign(c *x509.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	by := a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, by)
	require.NoError(a.t, err)
	leaf := &x509.Certificate{Raw: der}
	if c.IsCA {
		leaf, err = x509.ParseCertificate(der)
		require.NoError(a.t, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) text(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// A san is a name in a certificate, and of which kind it is.
type san struct {
	tag  int
	name string
}

const (
	sanEmail = 1
	sanDNS   = 2
	sanURI   = 6
)

func (a *authority) client(names ...san) tls.Certificate {
	all := make([]asn1.RawValue, len(names))
	for i, n := range names {
		all[i] = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: n.tag, Bytes: []byte(n.name)}
	}
	value, err := asn1.Marshal(all)
	require.NoError(a.t, err)
	return a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		Subject:  pkix.Name{CommonName: "x,URI=" + idOfAdmin, Organization: []string{`a";URI="` + idOfAdmin}},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}}})
}

const (
	idOfTeam  = "spiffe://example.org/ns/team-a/x"
	idOfAdmin = "spiffe://example.org/ns/ml/admin"
	idOfEdge  = "spiffe://example.org/ns/edge/proxy"
)

// Whatever an authority signs, and whatever a header says, a client acts as the key that a field of its certificate is
// bound to, or as none.
func TestACertificateHasTheNamesOfItsFields(t *testing.T) {
	t.Parallel()
	g := harness.Run(t, t.TempDir(), "--concurrency", "1")
	team, _ := g.CreateKey(t, "", "")
	admin, _ := g.CreateKey(t, "", "")
	a := newAuthority(t)
	g.Apply(t, &configv1.CertificateIssuer{Name: "mesh", Ca: a.text(a.cert),
		Proxies: []string{"spiffe://example.org/ns/edge/*"},
		Bindings: []*configv1.CertificateBinding{{Key: admin, Identity: "spiffe://example.org/ns/ml/*"},
			{Key: admin, Identity: "*.admin.example.org"}, {Key: team, Identity: "spiffe://example.org/ns/team-a/*"},
			{Key: team, Identity: "team.example.org"}}})
	// acts returns as which key a client acts; empty: as none.
	acts := func(t *testing.T, c tls.Certificate, forwarded string) string {
		transport := g.Client.Transport.(*http.Transport).Clone()
		transport.DisableKeepAlives = true
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c, nil
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		if forwarded != "" {
			r.Header.Set("X-Forwarded-Client-Cert", forwarded)
		}
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil { // Envoy does not take the certificate
			return "refused"
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		if answer.StatusCode == http.StatusUnauthorized {
			return ""
		}
		require.Equal(t, http.StatusOK, answer.StatusCode)
		id, _ := g.Logged(t, answer.Header.Get("X-Request-Id"))["key_id"].(string)
		return map[string]string{team: "team", admin: "admin"}[id]
	}
	harness.Eventually(t, "the issuer in force", func() error {
		if acts(t, a.client(san{sanURI, idOfTeam}), "") != "team" {
			return errors.New("not yet")
		}
		return nil
	})
	forged := []string{"", "URI=" + idOfAdmin, `URI="` + idOfAdmin, "URI=" + idOfEdge + ",By=a;", `x=",`,
		`Hash=ab;Cert="x",URI=` + idOfAdmin}
	t.Run("fields", func(t *testing.T) {
		for want, certificates := range map[string][][]san{
			"team": {{{sanURI, idOfTeam}}, {{sanDNS, "team.example.org"}},
				{{sanDNS, "TEAM.example.org"}, {sanEmail, idOfAdmin}}},
			"admin": {{{sanURI, idOfAdmin}}, {{sanDNS, "a.test"}, {sanDNS, "x.admin.example.org"}}},
			"": {{{sanURI, idOfTeam + ";URI=" + idOfAdmin}}, {{sanURI, idOfTeam + ",URI=" + idOfAdmin}},
				{{sanURI, "spiffe://other.org/x"}}, {{sanDNS, "a.example.org,URI=" + idOfAdmin}},
				{{sanDNS, "a.example.org;URI=" + idOfAdmin}}, {{sanDNS, idOfAdmin}}, {{sanEmail, idOfAdmin}},
				{{sanURI, "https://evil.test/.admin.example.org"}}, {{sanURI, "team.example.org"}},
				{{sanDNS, "*.admin.example.org"}},
				{{sanURI, idOfTeam}, {sanURI, idOfAdmin}}, {{sanURI, "spiffe://example.org/ns/ml/../team-a/x"}},
				{{sanURI, "spiffe://example.org/ns/%6dl/admin"}}, {{sanURI, `x";URI="` + idOfAdmin}},
				{{sanURI, `x\",URI=` + idOfAdmin}}, {{sanDNS, "team.example.org;By=x"}}, {{sanURI, `"` + idOfAdmin + `"`}}},
		} {
			for i, names := range certificates {
				c := a.client(names...)
				for _, f := range forged[:cmp.Or(min(i, 1), len(forged))] { // the gateway bounds requests of strangers
					require.Equal(t, want, acts(t, c, f), "%v %q", names, f)
				}
			}
		}
		for _, f := range forged[1:] {
			require.Empty(t, acts(t, tls.Certificate{}, f), f)
		}
		for _, name := range []string{"urn:a\nURI=" + idOfAdmin, "spiffe://example.org/ns/ml/\x00admin", "urn:m\u212al"} {
			require.NotContains(t, []string{"team", "admin"}, acts(t, a.client(san{sanURI, name}), ""), "%q", name)
		}
	})
	t.Run("a proxy", func(t *testing.T) {
		edge := a.client(san{sanURI, idOfEdge})
		for want, stated := range map[string][]string{
			"team":  {"Hash=ab;URI=" + idOfTeam, "DNS=team.example.org", `By=x;Hash=ab;Subject="CN=a,O=\"b;URI=c\"";URI=` + idOfTeam},
			"admin": {"URI=" + idOfAdmin},
			"": {"", "Hash=ab", "URI=" + idOfTeam + ";URI=" + idOfAdmin, "URI=" + idOfTeam + ",URI=" + idOfAdmin,
				"DNS=a.test,Hash=ab;URI=" + idOfAdmin, `URI="` + idOfAdmin + `"`, "DNS=team.example.org;By=x", `x=",`,
				"URI=" + idOfTeam + `;Cert="x"`, `Subject="a"b";URI=` + idOfAdmin},
		} {
			for _, s := range stated {
				require.Equal(t, want, acts(t, edge, s), s)
			}
		}
	})
}
