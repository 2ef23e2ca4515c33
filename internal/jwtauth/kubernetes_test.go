package jwtauth_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/jwtauth"
)

// A recorded token is what the API server of Kubernetes 1.37 has signed for the pod summarizer-7d9f in the namespace
// team-a, with the keys that the server has published.
type recorded struct {
	Token string          `json:"token"`
	Keys  json.RawMessage `json:"jwks"`
}

// signedAt is when it was signed, for an hour.
var signedAt = time.Unix(1_795_965_243, 0)

func TestATokenOfAServiceAccount(t *testing.T) {
	text, err := os.ReadFile("testdata/kubernetes.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(text, &r))
	cluster := &configv1.TokenIssuer{Name: "cluster", Issuer: "https://kubernetes.default.svc.cluster.local",
		Audiences: []string{"modelgate"}, PolicyClaims: []string{"kubernetes.io.serviceaccount.name"},
		ProjectClaim: "kubernetes.io.namespace",
		Bindings: []*configv1.TokenBinding{
			{Key: "key_other", Claims: map[string]string{"kubernetes.io.namespace": "team-b"}},
			{Key: "key_team", Claims: map[string]string{"kubernetes.io.namespace": "team-*",
				"kubernetes.io.pod.name": "summarizer-*"}}}}
	require.NoError(t, configv1.Validate(cluster, nil).Err())
	v, err := (*jwtauth.Verifier)(nil).Next([]*configv1.ResolvedIssuer{{Issuer: cluster, Jwks: string(r.Keys)}})
	require.NoError(t, err)
	p, err := v.Verify(r.Token, signedAt)
	require.NoError(t, err)
	require.Equal(t, "key_team", p.Key)
	require.Equal(t, "system:serviceaccount:team-a:summarizer", p.User)
	require.Equal(t, "team-a", p.Project)
	require.Equal(t, map[string][]string{"kubernetes.io.serviceaccount.name": {"summarizer"}}, p.Claims)
	require.Equal(t, signedAt.Add(time.Hour), p.Expires)
	_, err = v.Verify(r.Token, signedAt.Add(2*time.Hour))
	require.EqualError(t, err, "it has expired")
	for claim, want := range map[string]string{"kubernetes.io.node.name": "the claim that names its project is not there",
		"kubernetes.io": `its claim "kubernetes.io" is not a string`} {
		other := proto.CloneOf(cluster)
		other.ProjectClaim = claim
		v, err = v.Next([]*configv1.ResolvedIssuer{{Issuer: other, Jwks: string(r.Keys)}})
		require.NoError(t, err)
		_, err = v.Verify(r.Token, signedAt)
		require.EqualError(t, err, want)
	}
}
