package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// presented returns what Envoy says of a certificate with a name.
func presented(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(name)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), URIs: []*url.URL{u}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return "Hash=" + strings.Repeat("ab", 32) + `;Cert="` + strings.ReplaceAll(url.QueryEscape(text), "+", "%20") + `"`
}

func TestACertificateActsAsTheKeyThatItIsBoundTo(t *testing.T) {
	hash := make([]byte, 32)
	ring := (*Keyring)(nil).With(map[string]*configv1.Key{"key_ml": {Name: "key_ml", Hash: hash},
		"key_off": {Name: "key_off", Hash: append(hash[:31:31], 1), Disabled: true}})
	d := &Directory{Keyring: ring, Certificates: CertificatesOf([]*configv1.CertificateIssuer{{Name: "i", Gateway: "mesh",
		Bindings: []*configv1.CertificateBinding{{Key: "key_off", Identity: "spiffe://m/off"},
			{Key: "key_gone", Identity: "spiffe://m/gone"}, {Key: "key_ml", Identity: "spiffe://m/*"}}}}, nil)}
	admit := func(c Caller) (*Client, string) {
		c.Address, c.Path = "192.0.2.1", "/v1/chat/completions"
		key, e := d.Admit(&c, time.Now())
		if e != nil {
			require.Equal(t, 401, e.Status)
			return nil, e.Message
		}
		return key, ""
	}
	key, _ := admit(Caller{Gateway: "mesh", Certificate: presented(t, "spiffe://m/web")})
	require.Equal(t, "key_ml", key.Name)
	require.Equal(t, "spiffe://m/web", key.Subject("").User)
	require.Zero(t, key.Expires)
	for said, c := range map[string]Caller{
		"is disabled or expired": {Gateway: "mesh", Certificate: presented(t, "spiffe://m/off")},
		"acts does not exist":    {Gateway: "mesh", Certificate: presented(t, "spiffe://m/gone")},
		"bound to no API key":    {Gateway: "mesh", Certificate: presented(t, "spiffe://other/web")},
		"is bound to no":         {Gateway: "default", Certificate: presented(t, "spiffe://m/web")},
		"did not get it whole":   {Gateway: "mesh", Certificate: "Hash=ab;URI=spiffe://m/web"},
		"provide an API key":     {Gateway: "mesh"},
		"provided is invalid":    {Gateway: "mesh", Certificate: presented(t, "spiffe://m/web"), Authorization: "Bearer mg-x"},
	} {
		key, message := admit(c)
		require.Nil(t, key)
		require.Contains(t, message, said)
	}
	again, _ := admit(Caller{Gateway: "mesh", Certificate: presented(t, "spiffe://m/b")})
	require.Equal(t, "spiffe://m/b", again.Subject("").User, "a key has no user but the caller's")
	require.Equal(t, "spiffe://m/web", key.Subject("").User)
}

func TestAnIssuerThatIsAsBeforeKeepsWhatItHasRead(t *testing.T) {
	a, b := &configv1.CertificateIssuer{Name: "a", Gateway: "a"}, &configv1.CertificateIssuer{Name: "b", Gateway: "b"}
	before := CertificatesOf([]*configv1.CertificateIssuer{a, b}, nil)
	changed := &configv1.CertificateIssuer{Name: "b", Gateway: "b", Required: true}
	after := CertificatesOf([]*configv1.CertificateIssuer{proto.CloneOf(a), changed}, before)
	require.Same(t, before["a"], after["a"])
	require.NotSame(t, before["b"], after["b"])
	require.Empty(t, CertificatesOf(nil, before))
}
