package identity_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/identity"
	"github.com/modelgate/modelgate/internal/secret"
)

// A forger is an issuer that does what a test says.
type forger struct {
	*httptest.Server
	key    *rsa.PrivateKey
	keyID  string
	claims map[string]any                           // of its ID tokens, besides those that are right
	info   map[string]any                           // of userinfo, likewise
	forge  func(t *testing.T, claims []byte) string // makes the token; nil: it is signed
	meta   map[string]any                           // of discovery, likewise
	asked  url.Values                               // at the endpoint of tokens
	nonce  string
}

const backURL = "https://gateway.example/sign-in/with/corp/back"

func newForger(t *testing.T) *forger {
	t.Helper()
	f := &forger{keyID: "one"}
	f.rotate(t, "one")
	mux := http.NewServeMux()
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, merged(map[string]any{"issuer": f.URL, "authorization_endpoint": f.URL + "/auth",
			"token_endpoint": f.URL + "/token", "jwks_uri": f.URL + "/keys", "userinfo_endpoint": f.URL + "/info",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}}, f.meta))
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &f.key.PublicKey, KeyID: f.keyID, Algorithm: "RS256",
			Use: "sig"}}})
	})
	mux.HandleFunc("/info", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, merged(map[string]any{"sub": "1", "groups": []string{"staff"}}, f.info))
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		f.asked = r.PostForm
		if _, hidden, ok := r.BasicAuth(); ok {
			f.asked.Set("client_secret", hidden)
		}
		claims, err := json.Marshal(merged(map[string]any{"iss": f.URL, "sub": "1", "aud": "client", "nonce": f.nonce,
			"exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "email": "Ann@example.com",
			"email_verified": true}, f.claims))
		require.NoError(t, err)
		token := f.signed(t, claims)
		if f.forge != nil {
			token = f.forge(t, claims)
		}
		answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
	})
	return f
}

// merged returns claims with others in their place. Nil takes one away.
func merged(all, others map[string]any) map[string]any {
	maps.Copy(all, others)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func (f *forger) rotate(t *testing.T, id string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	f.key, f.keyID = key, id
}

func (f *forger) signed(t *testing.T, claims []byte) string {
	return sign(t, jose.RS256, f.key, f.keyID, claims)
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, id string, claims []byte) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	require.NoError(t, err)
	signed, err := s.Sign(claims)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}

func (f *forger) provider() *configv1.IdentityProvider {
	return &configv1.IdentityProvider{Name: "corp", Issuer: f.URL, ClientId: "client",
		Roles: []*configv1.GroupRole{{Group: "staff", Role: configv1.Role_VIEWER}}}
}

// signIn goes through a whole flow.
func (f *forger) signIn(t *testing.T, s *identity.Service, said url.Values) (*identity.Person, error) {
	t.Helper()
	flow, page, err := s.Begin(t.Context(), "corp", backURL, "/next")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(page)
	require.NoError(t, err)
	f.nonce = u.Query().Get("nonce")
	q := url.Values{"state": {u.Query().Get("state")}, "code": {"c"}}
	maps.Copy(q, said)
	return s.End(t.Context(), flow, q, backURL)
}

func service(p *configv1.IdentityProvider) *identity.Service {
	return identity.New(identity.Config{
		Providers: func(context.Context) ([]*configv1.IdentityProvider, error) {
			return []*configv1.IdentityProvider{p}, nil
		},
		Secret: func(*configv1.IdentityProvider, string) (secret.Value, error) { return secret.New("hidden"), nil },
	})
}

func TestTokens(t *testing.T) {
	unsigned := func(_ *testing.T, claims []byte) string {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(claims) + "."
	}
	says := func(claims map[string]any) func(*testing.T, *forger) {
		return func(_ *testing.T, f *forger) { f.claims = claims }
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, f *forger)
		fails  string // empty: it does not
	}{
		"a good one": {func(*testing.T, *forger) {}, ""},
		"for several audiences": {func(_ *testing.T, f *forger) {
			f.claims = map[string]any{"aud": []string{"client", "b"}, "azp": "client"}
		}, ""},
		"for others too":    {says(map[string]any{"aud": []string{"client", "b"}}), "azp differs"},
		"for another":       {says(map[string]any{"aud": "other"}), "audience"},
		"of another party":  {says(map[string]any{"azp": "other"}), "azp differs"},
		"of another issuer": {says(map[string]any{"iss": "https://evil.example"}), "different provider"},
		"of another flow":   {says(map[string]any{"nonce": "replayed"}), "nonce differs"},
		"without a nonce":   {says(map[string]any{"nonce": nil}), "nonce differs"},
		"without a subject": {says(map[string]any{"sub": nil}), "no subject"},
		"expired":           {says(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "expired"},
		"unsigned":          {func(_ *testing.T, f *forger) { f.forge = unsigned }, "malformed"},
		"no token":          {func(_ *testing.T, f *forger) { f.forge = func(*testing.T, []byte) string { return "" } }, "malformed"},
		"HMAC by the public key": {func(_ *testing.T, f *forger) {
			f.forge = func(t *testing.T, claims []byte) string {
				return sign(t, jose.HS256, x509.MarshalPKCS1PublicKey(&f.key.PublicKey), f.keyID, claims)
			}
		}, "malformed"},
		"by another's key": {func(t *testing.T, f *forger) {
			other := &forger{}
			other.rotate(t, f.keyID)
			f.forge = other.signed
		}, "failed to verify signature"},
		"a key of its own in the header": {func(t *testing.T, f *forger) {
			other := &forger{}
			other.rotate(t, "one")
			f.forge = func(t *testing.T, claims []byte) string {
				s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: other.key},
					&jose.SignerOptions{EmbedJWK: true})
				require.NoError(t, err)
				signed, err := s.Sign(claims)
				require.NoError(t, err)
				token, err := signed.CompactSerialize()
				require.NoError(t, err)
				return token
			}
		}, "failed to verify signature"},
		"userinfo of another": {func(_ *testing.T, f *forger) { f.info = map[string]any{"sub": "2"} }, "another person"},
		"groups that userinfo cannot replace": {func(_ *testing.T, f *forger) {
			f.claims, f.info = map[string]any{"groups": "none"}, map[string]any{"groups": "staff"}
		}, "no group"},
		"an address that is not verified": {says(map[string]any{"email_verified": "false"}), "not verified"},
		"no name":                         {says(map[string]any{"email": nil}), "does not say the claim email"},
		"an endless answer": {func(_ *testing.T, f *forger) {
			f.forge = func(*testing.T, []byte) string { return strings.Repeat("a", 2<<20) }
		}, "not redeemed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForger(t)
			c.change(t, f)
			p, err := f.signIn(t, service(f.provider()), nil)
			if err == nil {
				_, err = p.Account(nil)
			}
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				var shown *openai.Error
				require.ErrorAs(t, err, &shown, "every error can be shown")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "ann@example.com 1 VIEWER", fmt.Sprint(p.Name, " ", p.Identity.GetSubject(), " ", p.Role))
			require.Equal(t, "hidden", f.asked.Get("client_secret"))
			require.NotEmpty(t, f.asked.Get("code_verifier"))
		})
	}
}

func TestKeysRotate(t *testing.T) {
	f := newForger(t)
	s := service(f.provider())
	_, err := f.signIn(t, s, nil)
	require.NoError(t, err)
	f.rotate(t, "two")
	_, err = f.signIn(t, s, nil)
	require.NoError(t, err, "a key that is not known is asked for")
}

func TestAnswersOfOthers(t *testing.T) {
	f := newForger(t)
	s := service(f.provider())
	_, err := f.signIn(t, s, url.Values{"iss": {"https://evil.example"}})
	require.ErrorContains(t, err, "did not begin in this browser", "RFC 9207")
	_, err = f.signIn(t, s, url.Values{"iss": {f.URL}})
	require.NoError(t, err)
	_, err = f.signIn(t, s, url.Values{"state": {""}})
	require.ErrorContains(t, err, "did not begin in this browser")
	_, err = s.End(t.Context(), identity.Flow{Provider: "corp"}, url.Values{"state": {""}, "code": {"c"}}, backURL)
	require.ErrorContains(t, err, "did not begin in this browser", "no flow at all")
}

func TestIssuersThatLie(t *testing.T) {
	f := newForger(t)
	f.meta = map[string]any{"issuer": "https://login.example"}
	_, err := f.signIn(t, service(f.provider()), nil)
	require.ErrorContains(t, err, "issuer")
	f.meta = nil
	p := f.provider()
	_, err = f.signIn(t, identity.New(identity.Config{
		Providers: func(context.Context) ([]*configv1.IdentityProvider, error) {
			return []*configv1.IdentityProvider{p}, nil
		},
		Secret: func(_ *configv1.IdentityProvider, to string) (secret.Value, error) {
			require.Equal(t, f.URL+"/token", to)
			return secret.Value{}, errors.New("it may not be sent there")
		}}), nil)
	require.ErrorContains(t, err, "it may not be sent there")
	require.Nil(t, f.asked, "nothing was sent")
}

func TestAProviderIsTested(t *testing.T) {
	f := newForger(t)
	require.NoError(t, service(f.provider()).Test(t.Context(), f.provider()))
	f.meta = map[string]any{"issuer": "https://login.example"}
	require.ErrorContains(t, service(f.provider()).Test(t.Context(), f.provider()), "issuer")
}

func TestClaims(t *testing.T) {
	f := newForger(t)
	p := f.provider()
	p.NameClaim, p.GroupsClaim = "preferred_username", "realm_access.roles"
	f.claims = map[string]any{"preferred_username": "ann", "realm_access": map[string]any{"roles": []any{"staff"}},
		"name": strings.Repeat("n", 200)}
	who, err := f.signIn(t, service(p), nil)
	require.NoError(t, err)
	require.Equal(t, "ann", who.Name)
	require.Empty(t, who.DisplayName, "what cannot be shown keeps nobody out")
	p.GroupsClaim = "https://example.com/groups"
	f.claims["https://example.com/groups"] = "staff"
	_, err = f.signIn(t, service(p), nil)
	require.NoError(t, err)
	p.GroupsClaim = "a.b.c"
	who, err = f.signIn(t, service(p), nil)
	require.NoError(t, err)
	_, err = who.Account(nil)
	require.ErrorContains(t, err, "no group")
	for _, groups := range []any{[]any{"staff", 1}, 7, map[string]any{"staff": true}} {
		f.claims["a.b.c"] = groups
		_, err = f.signIn(t, service(p), nil)
		require.ErrorContains(t, err, `its claim "a.b.c" is not`)
	}
	delete(f.claims, "a.b.c")
	memberships := []*configv1.Membership{{Organization: "acme", Role: configv1.Role_MEMBER}}
	member, err := who.Account(&configv1.Account{Name: who.Name, Memberships: memberships,
		Identity: &configv1.Identity{Issuer: who.Identity.GetIssuer()}})
	require.NoError(t, err, "a membership is enough")
	require.Equal(t, who.Identity.GetSubject(), member.GetIdentity().GetSubject())
	require.Len(t, member.GetMemberships(), 1)
	require.Zero(t, member.GetRole())
}

func TestANameOfAnotherAlphabetIsNoName(t *testing.T) {
	for _, name := range []string{"\u212aim@corp.example", "k\u0130m@corp.example", "kim\u200b@corp.example",
		"\u043aim@corp.example"} {
		f := newForger(t)
		f.claims = map[string]any{"email": name}
		_, err := f.signIn(t, service(f.provider()), nil)
		require.ErrorContains(t, err, "letters of ASCII", "%+q", name)
	}
	f := newForger(t)
	f.claims = map[string]any{"email": "Kim@Corp.Example"}
	p, err := f.signIn(t, service(f.provider()), nil)
	require.NoError(t, err)
	require.Equal(t, "kim@corp.example", p.Name)
}
