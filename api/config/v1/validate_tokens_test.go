package configv1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestValidateTokenIssuer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*configv1.TokenIssuer)
		says   string // empty: it is valid
	}{
		"one":           {func(*configv1.TokenIssuer) {}, ""},
		"in clear":      {func(i *configv1.TokenIssuer) { i.JwksUrl = "http://keys.example/" }, "jwks_url: must be a URL"},
		"for everybody": {func(i *configv1.TokenIssuer) { i.Audiences = nil }, "audiences: needs at least one"},
		"no binding":    {func(i *configv1.TokenIssuer) { i.Bindings = nil }, "bindings: must be 1 to 200"},
		"no key":        {func(i *configv1.TokenIssuer) { i.Bindings[0].Key = "" }, "bindings[0].key"},
		"its keys":      {func(i *configv1.TokenIssuer) { i.Jwks = `{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}` }, ""},
		"no keys":       {func(i *configv1.TokenIssuer) { i.Jwks = `{"keys":[]}` }, "jwks: must be a JSON Web Key Set"},
		"a certificate": {func(i *configv1.TokenIssuer) { i.Jwks = "-----BEGIN" }, "jwks: must be a JSON Web Key Set"},
		"a private key": {func(i *configv1.TokenIssuer) { i.Jwks = `{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB","d":"AQ"}]}` },
			"jwks: has a key that is not public"},
		"a shared key": {func(i *configv1.TokenIssuer) { i.Jwks = `{"keys":[{"kty":"oct","k":"AQ"}]}` },
			"jwks: has a key that is not public"},
		"keys and where they are": {func(i *configv1.TokenIssuer) {
			i.Jwks, i.JwksUrl = `{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}`, "https://keys.example/"
		}, "jwks: has no meaning with a jwks_url"},
		"any value": {func(i *configv1.TokenIssuer) { i.Bindings[0].Claims["groups"] = "*" },
			"bindings[0].claims: needs a name and a value for each"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &configv1.TokenIssuer{Name: "a", Issuer: "https://login.example", Audiences: []string{"m"},
				Bindings: []*configv1.TokenBinding{{Key: "key_a", Claims: map[string]string{"groups": "ml-*"}}}}
			c.change(i)
			err := configv1.Validate(i, nil).Err()
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}
