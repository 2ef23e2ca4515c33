package access

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestIdentitiesOfACertificate(t *testing.T) {
	proxies := []string{"spiffe://m/proxy-*"}
	for name, c := range map[string]struct {
		header string
		want   []string
	}{
		"a client":   {"Hash=ab;URI=spiffe://m/web", []string{"spiffe://m/web"}},
		"all names":  {"By=spiffe://m/gw;Hash=ab;URI=spiffe://m/web;URI=spiffe://m/b;DNS=a.test", []string{"spiffe://m/web", "spiffe://m/b", "a.test"}},
		"no name":    {"Hash=ab", nil},
		"nothing":    {"", nil},
		"other case": {"hash=ab;uri=spiffe://m/web", []string{"spiffe://m/web"}},
		"a proxy for a client": {`By=x;Hash=ab;Subject="CN=a,O=\"b;c\",URI=spiffe://m/no";URI=spiffe://m/web,Hash=cd;URI=spiffe://m/proxy-1`,
			[]string{"spiffe://m/web"}},
		"a proxy after a proxy": {"URI=spiffe://m/evil,URI=spiffe://m/web,Hash=cd;URI=spiffe://m/proxy-1", []string{"spiffe://m/web"}},
		"a proxy for itself":    {"Hash=cd;URI=spiffe://m/proxy-1", []string{"spiffe://m/proxy-1"}},
		"a client that is no proxy is itself, whatever it says": {"URI=spiffe://m/admin,Hash=cd;URI=spiffe://m/web", []string{"spiffe://m/web"}},
		"an open quote of a client":                             {`URI="spiffe://m/admin,Hash=cd;URI=spiffe://m/web`, []string{"spiffe://m/web"}},
		"a proxy for a client without a certificate":            {",Hash=cd;URI=spiffe://m/proxy-1", []string{"spiffe://m/proxy-1"}},
		"a client whose certificate has no name":                {"Hash=ab,Hash=cd;URI=spiffe://m/proxy-1", nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, identities(c.header, proxies)) })
	}
}

func TestACertificateActsAsTheKeyThatItIsBoundTo(t *testing.T) {
	hash := make([]byte, 32)
	ring := (*Keyring)(nil).With(map[string]*configv1.Key{"key_ml": {Name: "key_ml", Hash: hash},
		"key_off": {Name: "key_off", Hash: append(hash[:31:31], 1), Disabled: true}})
	d := &Directory{Keyring: ring, Certificates: CertificatesOf([]*configv1.CertificateIssuer{{Name: "i", Gateway: "mesh",
		Bindings: []*configv1.CertificateBinding{{Key: "key_off", Identity: "spiffe://m/off"},
			{Key: "key_gone", Identity: "spiffe://m/gone"}, {Key: "key_ml", Identity: "spiffe://m/*"}}}})}
	admit := func(c Caller) (*Client, string) {
		c.Address, c.Path = "192.0.2.1", "/v1/chat/completions"
		key, e := d.Admit(&c, time.Now())
		if e != nil {
			require.Equal(t, 401, e.Status)
			return nil, e.Message
		}
		return key, ""
	}
	key, _ := admit(Caller{Gateway: "mesh", Certificate: "Hash=ab;URI=spiffe://m/web"})
	require.Equal(t, "key_ml", key.Name)
	require.Equal(t, "spiffe://m/web", key.User())
	require.Zero(t, key.Expires)
	for said, c := range map[string]Caller{
		"is disabled or expired": {Gateway: "mesh", Certificate: "URI=spiffe://m/off"},
		"acts does not exist":    {Gateway: "mesh", Certificate: "URI=spiffe://m/gone"},
		"bound to no API key":    {Gateway: "mesh", Certificate: "URI=spiffe://other/web"},
		"is bound to no":         {Gateway: "default", Certificate: "URI=spiffe://m/web"},
		"provide an API key":     {Gateway: "mesh"},
		"provided is invalid":    {Gateway: "mesh", Certificate: "URI=spiffe://m/web", Authorization: "Bearer mg-x"},
	} {
		key, message := admit(c)
		require.Nil(t, key)
		require.Contains(t, message, said)
	}
	again, _ := admit(Caller{Gateway: "mesh", Certificate: "URI=spiffe://m/b"})
	require.Equal(t, "spiffe://m/b", again.User(), "a key has no user but the caller's")
	require.Equal(t, "spiffe://m/web", key.User())
}
