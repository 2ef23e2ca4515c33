package jwtauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/jwtauth"
)

const iss = "https://login.example"

var now = time.Unix(1_800_000_000, 0)

// A minter makes tokens.
type minter struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
}

func newMinter(t testing.TB) *minter {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &minter{r, e}
}

func (m *minter) keys(t testing.TB, keys ...jose.JSONWebKey) string {
	t.Helper()
	if keys == nil {
		keys = []jose.JSONWebKey{{Key: &m.rsa.PublicKey, KeyID: "r", Algorithm: "RS256", Use: "sig"},
			{Key: &m.ec.PublicKey, KeyID: "e"}}
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	return string(text)
}

func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, id string, o *jose.SignerOptions, claims any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, o)
	require.NoError(t, err)
	text, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := s.Sign(text)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}

type object = map[string]any

// good returns claims that are right, with others in their place. Nil takes one away.
func good(others object) object {
	c := object{"iss": iss, "aud": []string{"modelgate", "x"}, "sub": "ann", "exp": now.Add(time.Hour).Unix(),
		"groups": []string{"staff", "ml-core"}, "realm": object{"roles": "r1"}}
	maps.Copy(c, others)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func verifier(t testing.TB, jwks string, bindings ...*configv1.TokenBinding) *jwtauth.Verifier {
	t.Helper()
	if bindings == nil {
		bindings = []*configv1.TokenBinding{
			{Key: "key_ml", Claims: map[string]string{"groups": "ml-*", "realm.roles": "r1"}},
			{Key: "key_staff", Claims: map[string]string{"groups": "staff"}}}
	}
	config := &configv1.TokenIssuer{Name: "corp", Issuer: iss, Audiences: []string{"modelgate"}, Bindings: bindings}
	require.NoError(t, configv1.Validate(config, nil).Err())
	v, err := (*jwtauth.Verifier)(nil).Next([]*configv1.ResolvedIssuer{{Issuer: config, Jwks: jwks}})
	require.NoError(t, err)
	return v
}

func TestTokens(t *testing.T) {
	m, other := newMinter(t), newMinter(t)
	v := verifier(t, m.keys(t))
	rs := func(claims object) string { return sign(t, jose.RS256, m.rsa, "r", nil, claims) }
	encode := base64.RawURLEncoding.EncodeToString
	payload, err := json.Marshal(good(nil))
	require.NoError(t, err)
	for name, c := range map[string]struct{ token, want string }{
		"RSA":                           {rs(good(nil)), "key_ml ann"},
		"ECDSA":                         {sign(t, jose.ES256, m.ec, "e", nil, good(nil)), "key_ml ann"},
		"the second binding":            {rs(good(object{"realm": nil})), "key_staff ann"},
		"no binding":                    {rs(good(object{"groups": []string{"others"}})), "its claims fit no binding to a key"},
		"one audience":                  {rs(good(object{"aud": "modelgate"})), "key_ml ann"},
		"another audience":              {rs(good(object{"aud": "other"})), "it is for another audience"},
		"no audience":                   {rs(good(object{"aud": nil})), "it is for another audience"},
		"another issuer":                {rs(good(object{"iss": "https://evil.example"})), "its issuer is not known here"},
		"no issuer":                     {rs(good(object{"iss": nil})), "its issuer is not known here"},
		"expired":                       {rs(good(object{"exp": now.Add(-time.Minute).Unix()})), "it has expired"},
		"expired by a skew":             {rs(good(object{"exp": now.Add(-20 * time.Second).Unix()})), "key_ml ann"},
		"no expiry":                     {rs(good(object{"exp": nil})), "it has no expiry"},
		"an expiry that is a text":      {rs(good(object{"exp": "1900000000"})), `its claim "exp" is not a number of seconds since 1970`},
		"early":                         {rs(good(object{"nbf": now.Add(time.Minute).Unix()})), "it is not valid yet"},
		"early by a skew":               {rs(good(object{"nbf": now.Add(20 * time.Second).Unix()})), "key_ml ann"},
		"another's key":                 {sign(t, jose.RS256, other.rsa, "r", nil, good(nil)), "its signature is not by a key of its issuer"},
		"an unknown key":                {sign(t, jose.RS256, m.rsa, "z", nil, good(nil)), "its signature is not by a key of its issuer"},
		"a path as the key's id":        {sign(t, jose.RS256, other.rsa, "../../dev/null", nil, good(nil)), "its signature is not by a key of its issuer"},
		"a key without its id":          {sign(t, jose.RS256, m.rsa, "", nil, good(nil)), "its signature is not by a key of its issuer"},
		"another algorithm":             {sign(t, jose.RS512, m.rsa, "r", nil, good(nil)), "its signature is not by a key of its issuer"},
		"a key in the header":           {sign(t, jose.RS256, other.rsa, "r", &jose.SignerOptions{EmbedJWK: true}, good(nil)), "its signature is not by a key of its issuer"},
		"HMAC with the public key":      {sign(t, jose.HS256, x509.MarshalPKCS1PublicKey(&m.rsa.PublicKey), "r", nil, good(nil)), "it is malformed, or signed with an algorithm that is not accepted"},
		"unsigned":                      {encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + ".", "it is malformed, or signed with an algorithm that is not accepted"},
		"a critical header":             {sign(t, jose.RS256, m.rsa, "r", (&jose.SignerOptions{}).WithHeader("crit", []string{"x"}).WithHeader("x", 1), good(nil)), "its signature is not by a key of its issuer"},
		"not JSON":                      {"eyJh.eyJh.x", "it is malformed, or signed with an algorithm that is not accepted"},
		"oversized":                     {rs(good(object{"x": strings.Repeat("a", 20_000)})), "it is malformed, or signed with an algorithm that is not accepted"},
		"a user that is no text":        {rs(good(object{"sub": 1})), `its claim "sub" is not a string`},
		"a beginning as a text":         {rs(good(object{"nbf": "4102444800"})), `its claim "nbf" is not a number of seconds since 1970`},
		"a past beginning as a text":    {rs(good(object{"nbf": "1"})), `its claim "nbf" is not a number of seconds since 1970`},
		"a beginning as a list":         {rs(good(object{"nbf": []int{1}})), `its claim "nbf" is not a number of seconds since 1970`},
		"a beginning as null":           {rs(good(object{"nbf": json.RawMessage("null")})), `its claim "nbf" is not a number of seconds since 1970`},
		"a negative beginning":          {rs(good(object{"nbf": -1})), `its claim "nbf" is not a number of seconds since 1970`},
		"a beginning out of range":      {rs(good(object{"nbf": 1e18})), `its claim "nbf" is not a number of seconds since 1970`},
		"an issue as a text":            {rs(good(object{"iat": "1"})), `its claim "iat" is not a number of seconds since 1970`},
		"issued in the future":          {rs(good(object{"iat": now.Add(time.Minute).Unix()})), "it is not valid yet"},
		"an audience that is no text":   {rs(good(object{"aud": []any{"modelgate", 1}})), `its claim "aud" is not a list of strings`},
		"an audience as an object":      {rs(good(object{"aud": object{"modelgate": 1}})), `its claim "aud" is not a string or a list of strings`},
		"an issuer as a list":           {rs(good(object{"iss": []string{"x"}})), `its claim "iss" is not a string`},
		"a bound claim of another type": {rs(good(object{"realm": object{"roles": object{"user": true}}})), `its claim "realm.roles" is not a string or a list of strings`},
		"claims that are no object":     {sign(t, jose.RS256, m.rsa, "r", nil, []string{"a"}), "it is malformed, or signed with an algorithm that is not accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time from memory
				p, err := v.Verify(c.token, now)
				got := p.Key + " " + p.User
				if err != nil {
					got = err.Error()
				}
				require.Equal(t, c.want, got)
			}
		})
	}
	_, err = (*jwtauth.Verifier)(nil).Verify(rs(good(nil)), now)
	require.Error(t, err)
}

func TestARememberedTokenExpires(t *testing.T) {
	m := newMinter(t)
	v := verifier(t, m.keys(t))
	token := sign(t, jose.RS256, m.rsa, "r", nil, good(nil))
	_, err := v.Verify(token, now)
	require.NoError(t, err)
	_, err = v.Verify(token, now.Add(time.Hour+29*time.Second))
	require.NoError(t, err)
	_, err = v.Verify(token, now.Add(time.Hour+30*time.Second))
	require.EqualError(t, err, "it has expired")
}

func TestATokenIsTheBindingsOwner(t *testing.T) {
	m := newMinter(t)
	v := verifier(t, m.keys(t), &configv1.TokenBinding{Key: "key_all"})
	p, err := v.Verify(sign(t, jose.RS256, m.rsa, "r", nil, good(object{"groups": nil})), now)
	require.NoError(t, err)
	require.Equal(t, "key_all", p.Key, "without claims every token fits")
}

func TestTheClaimsThatPoliciesSee(t *testing.T) {
	m := newMinter(t)
	config := &configv1.TokenIssuer{Name: "corp", Issuer: iss, Audiences: []string{"modelgate"},
		Bindings: []*configv1.TokenBinding{{Key: "key_all"}}, PolicyClaims: []string{"groups", "realm.roles", "dept"}}
	require.NoError(t, configv1.Validate(config, nil).Err())
	v, err := (*jwtauth.Verifier)(nil).Next([]*configv1.ResolvedIssuer{{Issuer: config, Jwks: m.keys(t)}})
	require.NoError(t, err)
	verify := func(others object) (jwtauth.Principal, error) {
		return v.Verify(sign(t, jose.RS256, m.rsa, "r", nil, good(others)), now)
	}
	p, err := verify(nil)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"groups": {"staff", "ml-core"}, "realm.roles": {"r1"}, "dept": nil}, p.Claims)
	_, err = verify(object{"groups": []string{strings.Repeat("x", 3000)}})
	require.EqualError(t, err, "the claims that policies see have more than 2 KiB", "they are not shortened")
	_, err = verify(object{"groups": strings.Split(strings.Repeat("x,", 200), ",")})
	require.Error(t, err, "many short ones")
	for _, dept := range []any{7, true, object{"a": 1}, []any{"a", 7}} { // a policy would see none
		_, err = verify(object{"dept": dept})
		require.ErrorContains(t, err, `its claim "dept" is not a`)
	}

	plain, err := verifier(t, m.keys(t)).Verify(sign(t, jose.RS256, m.rsa, "r", nil, good(nil)), now)
	require.NoError(t, err)
	require.Nil(t, plain.Claims, "none is configured")
	config.PolicyClaims = strings.Split("a,b,c,d,e,f,g,h,i", ",")
	require.ErrorContains(t, configv1.Validate(config, nil).Err(), "policy_claims: must be at most 8")
}

func TestPublicKeys(t *testing.T) {
	m := newMinter(t)
	got, err := jwtauth.PublicKeys([]byte(m.keys(t, jose.JSONWebKey{Key: m.rsa, KeyID: "private"},
		jose.JSONWebKey{Key: []byte("secret"), KeyID: "hmac"},
		jose.JSONWebKey{Key: &m.ec.PublicKey, KeyID: "enc", Use: "enc"})))
	require.NoError(t, err)
	require.Len(t, got.Keys, 1)
	require.True(t, got.Keys[0].IsPublic(), "a private key is not passed on")
	for _, set := range []string{``, `[]`, `{"keys":[]}`, `{"keys":[{"kty":"new"}]}`,
		`{"keys":[{"kty":"oct","k":"AAAA"}]}`} {
		_, err := jwtauth.PublicKeys([]byte(set))
		require.Error(t, err, set)
	}
	require.True(t, jwtauth.Looks("eyJhbGciOiJ.x.y"))
	require.False(t, jwtauth.Looks("sk-mg-abc"))
}

func BenchmarkVerify(b *testing.B) {
	m := newMinter(b)
	v := verifier(b, m.keys(b))
	token := sign(b, jose.ES256, m.ec, "e", nil, good(nil))
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.Verify(token, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
