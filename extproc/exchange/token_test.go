package exchange_test

import (
	"crypto/ed25519"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/jwtauth"
	"github.com/modelgate/modelgate/internal/policy"
)

// TestPoliciesSeeWhoseTokenItIs sends requests with tokens of two groups, and one with the key itself.
func TestPoliciesSeeWhoseTokenItIs(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k"}}})
	require.NoError(t, err)
	signing := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}
	signer, err := jose.NewSigner(signing, nil)
	require.NoError(t, err)
	key := fullKey()
	m := newMeter(t, key)
	m.config.Tokens, err = (*jwtauth.Verifier)(nil).Next([]*configv1.ResolvedIssuer{{Jwks: string(keys),
		Issuer: &configv1.TokenIssuer{Name: "corp", Issuer: "https://i.example", Audiences: []string{"gw"},
			PolicyClaims: []string{"groups"}, Bindings: []*configv1.TokenBinding{{Key: key.GetName()}}}}})
	require.NoError(t, err)
	m.config.Policies, err = policy.Policies(nil).Next([]*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{
		{Name: "staff", Deny: `has(token.groups) && !("staff" in token.groups)`}}}})
	require.NoError(t, err)
	secret := m.secret
	for groups, want := range map[string]string{"staff": "", "guests": "policy p/staff", "": ""} {
		m.secret = secret
		if groups != "" {
			claims, err := json.Marshal(map[string]any{"iss": "https://i.example", "aud": "gw", "sub": "ann",
				"groups": []string{groups}, "exp": m.now.Unix() + 60})
			require.NoError(t, err)
			signed, err := signer.Sign(claims)
			require.NoError(t, err)
			m.secret, err = signed.CompactSerialize()
			require.NoError(t, err)
		}
		x, reply := m.chat(ask40)
		require.Equal(t, want != "", reply.Immediate != nil, groups)
		require.Equal(t, want, x.Close().RefusedBy, groups)
	}
}
