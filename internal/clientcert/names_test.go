package clientcert_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/clientcert"
)

const (
	team  = "spiffe://example.org/ns/team-a/x"
	admin = "spiffe://example.org/ns/ml/admin"
	proxy = "spiffe://example.org/edge"
	hash  = "Hash=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// A name is a subject alternative name, with its kind.
type name struct {
	tag  int
	text string
}

const (
	email     = 1
	dns       = 2
	directory = 4
	uri       = 6
)

// encoded returns a certificate with names as Envoy writes it.
func encoded(t *testing.T, names ...name) string {
	t.Helper()
	all := make([]asn1.RawValue, len(names))
	for i, n := range names {
		all[i] = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: n.tag, Bytes: []byte(n.text)}
	}
	san, err := asn1.Marshal(all)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: "x,URI=" + admin + ";URI=" + admin}}
	if len(names) > 0 {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: san}}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return strings.NewReplacer("\n", "%0A", " ", "%20", "+", "%2B", "/", "%2F", "=", "%3D").Replace(string(text))
}

func own(certificate string) string { return hash + `;Cert="` + certificate + `"` }

func TestNamesAreFieldsOfTheCertificate(t *testing.T) {
	for what, c := range map[string]struct {
		names []name
		want  clientcert.Names
		says  string
	}{
		"one":  {names: []name{{uri, team}}, want: clientcert.Names{URIs: []string{team}}},
		"none": {},
		"all": {names: []name{{dns, "b.test"}, {uri, team}, {uri, "urn:x:y"}, {dns, "a.test"}},
			want: clientcert.Names{URIs: []string{team, "urn:x:y"}, Hosts: []string{"b.test", "a.test"}}},
		"another's kind": {names: []name{{email, admin}, {email, "a.test"}, {directory, "\x30\x00"}}},
		"a semicolon":    {names: []name{{uri, team + ";URI=" + admin}}},
		"a comma":        {names: []name{{uri, team + ",URI=" + admin}}},
		"a comma in http": {names: []name{{uri, "https://a.test/,URI=" + admin}},
			want: clientcert.Names{URIs: []string{"https://a.test/,URI=" + admin}}},
		"a quote": {names: []name{{uri, team + `";URI="` + admin}}},
		"a host with a URI": {names: []name{{dns, "a.example.org,URI=" + admin}, {dns, "a.example.org;DNS=b.test"},
			{dns, admin}, {dns, `a\"`}, {dns, "a b"}}},
		"a wildcard, and an empty host": {names: []name{{dns, "*.example.org"}, {dns, ""}, {dns, "a..b"}, {dns, "a."}}},
		"other case":                    {names: []name{{dns, "A.Example.ORG"}}, want: clientcert.Names{Hosts: []string{"a.example.org"}}},
		"SPIFFE ids that are none": {names: []name{{uri, "spiffe://example.org/ns/team-a/../ml/admin"},
			{uri, "spiffe://example.org/ns/%6dl/admin"}, {uri, "SPIFFE://example.org/ns/ml/admin"},
			{uri, "spiffe://Example.org/ns/ml"}, {uri, "spiffe://example.org//ml"}, {uri, "spiffe://example.org/ml/"},
			{uri, "spiffe://example.org/ml/."}, {uri, "spiffe://u@example.org/ml"}, {uri, "spiffe://example.org/ml?a"},
			{uri, "spiffe://example.org/ml#a"}, {uri, "spiffe://example.org/ml/*"}}},
		"a relative URI": {names: []name{{uri, "batch.example.org"}, {uri, "//example.org/ml"}}},
		"two SPIFFE ids": {names: []name{{uri, team}, {uri, admin}}, says: "more than one SPIFFE id"},
		"a newline":      {names: []name{{uri, "urn:a\nURI=" + admin}}, says: "cannot be read"},
		"a zero":         {names: []name{{dns, "a.test\x00.evil.test"}}},
		"beyond ASCII":   {names: []name{{dns, "münchen.test"}}, says: "cannot be read"},
		"a Kelvin sign":  {names: []name{{uri, "spiffe://example.org/ns/\u212a"}}, says: "cannot be read"},
		"an encoded host": {names: []name{{dns, "xn--mnchen-3ya.test"}},
			want: clientcert.Names{Hosts: []string{"xn--mnchen-3ya.test"}}},
		"a host that is old": {names: []name{{dns, "a_b.test"}}, want: clientcert.Names{Hosts: []string{"a_b.test"}}},
	} {
		t.Run(what, func(t *testing.T) {
			header := own(encoded(t, c.names...))
			for _, h := range []string{header, "By=spiffe://gw/a;" + header, "By=spiffe://gw/a;By=x;" + header,
				"URI=" + admin + "," + header, `x=",` + header, `URI="` + admin + `,By=a;` + header, "," + header,
				own("forged") + "," + header, own("forged") + ",By=a;" + header} {
				r := clientcert.NewReader()
				for range 2 { // also from memory
					got, err := r.Of(h, []string{proxy})
					if c.says != "" {
						require.ErrorContains(t, err, c.says)
						continue
					}
					require.NoError(t, err, h)
					require.Equal(t, c.want, got)
				}
			}
		})
	}
}

// Where Envoy did not add a certificate, nothing in the header is believed.
func TestAHeaderWithoutACertificateIsRefused(t *testing.T) {
	good := encoded(t, name{uri, admin})
	for _, h := range []string{"", hash, hash + ";URI=" + admin, "URI=" + admin, own(""), own("x"), own("%zz"),
		own(good) + ";URI=" + admin, own(good) + " ", own(good) + ",", own(good) + "," + hash, `Cert="` + good + `"`,
		`x` + own(good), `URI=x;` + own(good), hash + "0;Cert=" + good, own(good + "%0A" + good), `"` + own(good),
		hash + `;Cert="` + good + `"";Cert="`, hash + `;Cert="` + good} {
		n, err := clientcert.NewReader().Of(h, nil)
		require.Error(t, err, h)
		require.Zero(t, n)
	}
}

func TestAProxyStatesItsClientInOneWay(t *testing.T) {
	by := own(encoded(t, name{uri, proxy}))
	client, other := encoded(t, name{uri, team}, name{dns, "a.test"}), encoded(t, name{uri, admin})
	cert := `Cert="` + client + `"`
	for stated, want := range map[string]clientcert.Names{
		"":                                    {URIs: []string{proxy}},
		"URI=" + team:                         {URIs: []string{team}},
		"uri=" + team:                         {URIs: []string{team}},
		"By=x;By=y;Hash=ab;URI=" + team:       {URIs: []string{team}},
		`Hash=ab;Subject="";DNS=A.test`:       {Hosts: []string{"a.test"}},
		"Hash=ab;DNS=*.test":                  {},
		"Hash=ab":                             {},
		"By=x;Hash=ab;" + cert:                {URIs: []string{team}, Hosts: []string{"a.test"}},
		cert + ";URI=" + admin + ";DNS=c":     {URIs: []string{team}, Hosts: []string{"a.test"}},
		cert + ";URI=x;URI=" + admin:          {URIs: []string{team}, Hosts: []string{"a.test"}},
		`Chain="` + other + `";URI=` + team:   {URIs: []string{team}},
		"URI=" + admin + "/..":                {},
		`Subject="O=a\",URI=x\\";URI=` + team: {URIs: []string{team}},
	} {
		h := by
		if stated != "" {
			h = stated + "," + by
		}
		got, err := clientcert.NewReader().Of(h, []string{"spiffe://example.org/e*"})
		require.NoError(t, err, stated)
		require.Equal(t, want, got, stated)
	}
	for _, stated := range []string{
		"URI=" + team + ";URI=" + admin,                          // two, or one with a semicolon
		"URI=" + team + ",URI=" + admin,                          // two elements, or one with a comma
		"Hash=ab;DNS=a.test,Hash=ab;URI=" + admin,                // the same
		"DNS=a.test;URI=" + admin, "URI=" + team + ";DNS=a.test", // the same
		"DNS=a.test;By=x", "DNS=a.test;Hash=ab", "DNS=a.test;", "DNS=a.test;x=y", "DNS=a.test;x", "DNS=a.test;Cert=",
		"URI=" + team + `;Cert="` + other + `"`, "URI=" + team + `;Subject="a"`, "URI=" + team + `,Cert="` + other + `"`,
		`URI="` + team + `"`, `DNS="a.test"`, `URI="` + team + `";DNS="` + `a.test"`,
		cert + `;Cert="` + other + `"`, cert + `,Cert="` + other + `"`,
		`Subject="O=a";Subject="b";URI=` + team, `Subject="O=a"b";URI=` + team, `Subject="URI=` + team,
		"Subject=O=a,URI=" + team, `URI=a\b`, `URI=a"b`, "URI=a b", "URI=", "=", ";", "URI", " URI=" + team,
		"URI=" + team + ", ", `Cert="x"`, `Cert="%zz"`, "Cert=" + other + "x",
		`Cert="";URI=` + team + ";URI=" + admin, `Cert="";URI=` + team, // no certificate, and two names
	} {
		got, err := clientcert.NewReader().Of(stated+","+by, []string{proxy})
		require.Error(t, err, stated)
		require.Zero(t, got)
	}
}

func TestPatternsFitNamesOfTheirKind(t *testing.T) {
	n := clientcert.Names{URIs: []string{"https://evil.test/x.example.org", admin}, Hosts: []string{"batch.example.org"}}
	for pattern, want := range map[string]string{
		"*.example.org": "batch.example.org", "Batch.Example.ORG": "batch.example.org", "*x.example.org": "",
		"spiffe://example.org/ns/*": admin, "spiffe://example.org/NS/*": "", "*/ml/*": admin, "*:*": n.URIs[0],
		"spiffe*": "", "batch.example.org:*": "",
	} {
		got, ok := n.First(pattern)
		require.Equal(t, want, got, pattern)
		require.Equal(t, want != "", ok, pattern)
	}
}
