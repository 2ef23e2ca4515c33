package exchange_test

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/jwtauth"
	"github.com/modelgate/modelgate/internal/policy"
)

// withTokens has a meter take tokens of an issuer, which differs from a plain one, as its key. It returns what signs
// the claims of "ann", with others.
func withTokens(m *meter, differs *configv1.TokenIssuer) (sign func(others map[string]any) string) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(m.t, err)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k"}}})
	require.NoError(m.t, err)
	signing := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}
	signer, err := jose.NewSigner(signing, nil)
	require.NoError(m.t, err)
	issuer := &configv1.TokenIssuer{Name: "corp", Issuer: "https://i.example", Audiences: []string{"gw"},
		Bindings: []*configv1.TokenBinding{{Key: "key_1"}}}
	proto.Merge(issuer, differs)
	resolved := []*configv1.ResolvedIssuer{{Jwks: string(keys), Issuer: issuer}}
	m.config.Tokens, err = (*jwtauth.Verifier)(nil).Next(resolved)
	require.NoError(m.t, err)
	return func(others map[string]any) string {
		claims := map[string]any{"iss": "https://i.example", "aud": "gw", "sub": "ann", "exp": m.now.Unix() + 60}
		maps.Copy(claims, others)
		text, err := json.Marshal(claims)
		require.NoError(m.t, err)
		signed, err := signer.Sign(text)
		require.NoError(m.t, err)
		token, err := signed.CompactSerialize()
		require.NoError(m.t, err)
		return token
	}
}

// TestPoliciesSeeWhoseTokenItIs sends requests with tokens of two groups, and one with the key itself.
func TestPoliciesSeeWhoseTokenItIs(t *testing.T) {
	m := newMeter(t, fullKey())
	sign := withTokens(m, &configv1.TokenIssuer{PolicyClaims: []string{"groups"}})
	var err error
	m.config.Policies, err = policy.Policies(nil).Next([]*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{
		{Name: "staff", Deny: `has(token.groups) && !("staff" in token.groups)`}}}})
	require.NoError(t, err)
	secret := m.secret
	for groups, want := range map[string]string{"staff": "", "guests": "policy p/staff", "": ""} {
		m.secret = secret
		if groups != "" {
			m.secret = sign(map[string]any{"groups": []string{groups}})
		}
		x, reply := m.chat(ask40)
		require.Equal(t, want != "", reply.Immediate != nil, groups)
		require.Equal(t, want, x.Close().RefusedBy, groups)
	}
}

// TestAWorkloadOfAClusterIsCountedInTheProjectOfItsNamespace has one key for all service accounts, and projects with
// the names of their namespaces.
func TestAWorkloadOfAClusterIsCountedInTheProjectOfItsNamespace(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1", Organization: "cluster", Project: "others"})
	sign := withTokens(m, &configv1.TokenIssuer{ProjectClaim: "kubernetes.io.namespace"})
	once := &configv1.Limit{Domain: "requests", Unit: configv1.Unit_DAY, RequestsPerUnit: 1}
	m.config.Projects = map[string]*configv1.Project{"cluster/team-a": {Limits: []*configv1.Limit{once}},
		"cluster/team-b": {}, "cluster/off": {Disabled: true}, "other/team-c": {}}
	for i, c := range []struct {
		namespace string
		status    int
		project   string
	}{
		{"team-a", 0, "team-a"},
		{"team-b", 0, "team-b"},
		{"team-a", http.StatusTooManyRequests, "team-a"}, // what the other namespace does has no part in it
		{"team-b", 0, "team-b"},
		{"off", http.StatusUnauthorized, "off"},
		{"team-c", http.StatusUnauthorized, ""}, // of another organization
		{"team-d", http.StatusUnauthorized, ""},
	} {
		m.secret = sign(map[string]any{"sub": "system:serviceaccount:" + c.namespace + ":bot",
			"kubernetes.io": map[string]any{"namespace": c.namespace, "serviceaccount": map[string]any{"name": "bot"}}})
		x, reply := m.chat(ask40)
		status := 0
		if reply.Immediate != nil {
			status = reply.Immediate.Status
		}
		require.Equal(t, c.status, status, "%d %s", i, c.namespace)
		r := x.Close()
		require.Equal(t, c.project, r.Project, "%d %s", i, c.namespace)
		if c.project != "" {
			require.Equal(t, "cluster key_1 system:serviceaccount:"+c.namespace+":bot", r.Organization+" "+r.Key+" "+r.User)
		}
	}
	m.secret = sign(nil)
	_, reply := m.chat(ask40)
	require.Equal(t, http.StatusUnauthorized, reply.Immediate.Status)
	require.Contains(t, string(reply.Immediate.Body), "the claim that names its project is not there")
}

// TestALineOfABatchCountsInTheProjectOfItsBatch has a project that a token has named. Otherwise a batch would be a way
// around the limits and budgets of a namespace.
func TestALineOfABatchCountsInTheProjectOfItsBatch(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1", Organization: "cluster", Project: "others"})
	m.config.Projects = map[string]*configv1.Project{"cluster/team a": {Limits: []*configv1.Limit{
		{Domain: "requests", Unit: configv1.Unit_DAY, RequestsPerUnit: 1}}}, "cluster/others": {}}
	for i, c := range []struct {
		header, project string
		refused         bool
	}{{"team+a", "team a", false}, {"team+a", "team a", true}, {"", "others", false}} {
		x := exchange.NewInternal(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"}, {Name: "content-type", Value: "application/json"},
			{Name: envoy.HeaderKey, Value: "key_1"}, {Name: envoy.HeaderProject, Value: c.header}}, false)
		reply := x.RequestBody(t.Context(), []byte(ask40))
		require.Equal(t, c.refused, reply.Immediate != nil, i)
		require.Equal(t, c.project, x.Close().Project, i)
	}
}
