package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/harness"
)

// TestTokensActAsKeys: clients send tokens of an issuer in place of keys. What the key may do, they may, until the
// token expires or the key is revoked.
func TestTokensActAsKeys(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &private.PublicKey, KeyID: "k"}}})
	require.NoError(t, err)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) }))
	t.Cleanup(issuer.Close)
	g := startRun(t, t.TempDir())
	key := gjson.Get(harness.Must(t, "", "key", "create", "--data", g.Dir, "--name", "ml", "--models", "echo/*",
		"--rpm", "3", "-o", "json"), "id").Str
	harness.Must(t, fmt.Sprintf("kind: TokenIssuer\nname: corp\nissuer: %s\njwks_url: %s/keys\naudiences: [modelgate]\nbindings:\n- {key: %s, claims: {groups: ml}}\n",
		issuer.URL, issuer.URL, key), "config", "apply", "--data", g.Dir, "-f", "-")

	token := func(groups string, expires time.Duration) string {
		signing := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}
		signer, err := jose.NewSigner(signing, nil)
		require.NoError(t, err)
		text, err := json.Marshal(map[string]any{"iss": issuer.URL, "aud": "modelgate", "sub": "ann", "groups": groups,
			"exp": time.Now().Add(expires).Unix()})
		require.NoError(t, err)
		signed, err := signer.Sign(text)
		require.NoError(t, err)
		compact, err := signed.CompactSerialize()
		require.NoError(t, err)
		return compact
	}
	ask := func(token, model string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"`+model+`","user":"somebody else","messages":[{"role":"user","content":"hi"}]}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := g.Client.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		var body json.RawMessage
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
		return answer.StatusCode, string(body)
	}
	good := token("ml", time.Hour)
	harness.Eventually(t, "the issuer's keys in force", func() error {
		if status, body := ask(good, "other/model"); status != http.StatusNotFound { // it counts as no request of the limit
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	status, body := ask(good, "echo/echo")
	require.Equal(t, 200, status, body)
	line := g.WaitFor(t, `"user":"ann"`)
	require.Contains(t, line, `"key_id":"`+key+`"`)
	require.NotContains(t, g.Output(), good, "no log has a token")

	status, body = ask(token("others", time.Hour), "echo/echo")
	require.Equal(t, 401, status)
	require.Contains(t, body, "its claims fit no binding to a key")
	status, body = ask(token("ml", -time.Hour), "echo/echo")
	require.Equal(t, 401, status)
	require.Contains(t, body, "it has expired")
	harness.Eventually(t, "the key's limit", func() error {
		if status, _ := ask(good, "echo/echo"); status != http.StatusTooManyRequests {
			return errStill
		}
		return nil
	})
	harness.Must(t, "", "key", "revoke", "--data", g.Dir, key)
	status, body = ask(good, "echo/echo")
	require.Equal(t, 401, status, body)
}
