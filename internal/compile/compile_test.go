package compile_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/compile"
)

var options = compile.Options{Log: zap.NewNop()}

func settings(t *testing.T) *configv1.Settings {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	jwks, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	require.NoError(t, err)
	guardrail := func(name string) *configv1.Guardrail {
		return &configv1.Guardrail{Name: name, Rules: []*configv1.GuardRule{{Name: "r", Mode: configv1.GuardMode_BLOCK,
			Words: []string{"secret"}}}}
	}
	return &configv1.Settings{KeyPepper: []byte("p"),
		Guardrails:     []*configv1.Guardrail{guardrail("a"), guardrail("b")},
		Policies:       []*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{{Name: "r", Deny: "size > 1"}}}},
		ResponseCaches: []*configv1.ResponseCache{{Name: "c"}},
		Checkers:       []*configv1.Checker{{Name: "k", Type: configv1.CheckerType_WEBHOOK, Url: "https://a.example/"}},
		Issuers: []*configv1.ResolvedIssuer{{Jwks: string(jwks), Issuer: &configv1.TokenIssuer{Name: "i",
			Issuer: "https://i.example", Audiences: []string{"x"}}}},
	}
}

func TestAChangedObjectIsCompiledAlone(t *testing.T) {
	s := settings(t)
	before, err := compile.Rules{}.Next(s, options)
	require.NoError(t, err)
	s = proto.CloneOf(s)
	s.Policies[0].Rules[0].Deny = "size > 2"
	s.Policies = append(s.Policies, &configv1.Policy{Name: "q"})
	after, err := before.Next(s, options)
	require.NoError(t, err)
	require.NotSame(t, before.Policies[0], after.Policies[0])
	require.Len(t, after.Policies, 2)
	require.Same(t, before.Guardrails[0], after.Guardrails[0])
	require.Same(t, before.Checkers["k"], after.Checkers["k"])
	require.Same(t, before.Tokens, after.Tokens, "tokens that were checked are known")
	require.Same(t, before.Caches[0], after.Caches[0])

	s.Guardrails[1].Disabled = true
	s.Guardrails = compile.InForce(s.Guardrails)
	last, err := after.Next(s, options)
	require.NoError(t, err)
	require.Len(t, last.Guardrails, 1)
	require.Same(t, before.Guardrails[0], last.Guardrails[0])
	require.NotSame(t, before.Caches[0], last.Caches[0], "what an answer may contain is no longer the same")
	require.Same(t, after.Policies[0], last.Policies[0])
}

func TestRulesThatAreWrongLeaveAllBefore(t *testing.T) {
	s := settings(t)
	before, err := compile.Rules{}.Next(s, options)
	require.NoError(t, err)
	for object, wrong := range map[string]func(*configv1.Settings){
		"Guardrail b":   func(s *configv1.Settings) { s.Guardrails[1].When = "(" },
		"Policy p":      func(s *configv1.Settings) { s.Policies[0].Rules[0].Deny = "(" },
		"Checker k":     func(s *configv1.Settings) { s.Checkers[0].Ca = "no PEM" },
		"TokenIssuer i": func(s *configv1.Settings) { s.Issuers[0].Jwks = "{}" },
	} {
		next := proto.CloneOf(s)
		next.Guardrails[0].Rules[0].Words = []string{"other"}
		wrong(next)
		after, err := before.Next(next, options)
		require.ErrorContains(t, err, object)
		require.Equal(t, before, after, object)
	}
}

func TestObjectsInForceAreInOrder(t *testing.T) {
	all := []*configv1.Policy{{Name: "c"}, {Name: "b", Disabled: true}, {Name: "a"}}
	on := compile.InForce(all)
	require.Equal(t, []string{"a", "c"}, []string{on[0].GetName(), on[1].GetName()})
	require.Len(t, on, 2)
	require.Equal(t, "c", all[0].GetName(), "what was given stays as it is")
}
