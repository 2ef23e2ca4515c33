package vertex

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// tokenEndpoint returns a token endpoint that answers as it is told, and what it was asked last.
func tokenEndpoint(t *testing.T, status int, answer string) (url string, asked func() map[string]string) {
	t.Helper()
	form := map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		for name := range r.PostForm {
			form[name] = r.PostForm.Get(name)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/token", func() map[string]string { return form }
}

// anywhere trusts every token endpoint: the tests' own is on this machine.
func anywhere(string) bool { return true }

func TestACredentialIsExchangedAtGoogleAlone(t *testing.T) {
	url, asked := tokenEndpoint(t, http.StatusOK, `{"access_token":"ya29.token","expires_in":3599}`)
	for _, uri := range []string{
		url, "http://oauth2.googleapis.com/token", "https://oauth2.googleapis.com.evil.example/token",
		"https://oauth2.googleapis.com@evil.example/token",
		"https://evil.example/oauth2.googleapis.com", "https://oauth2.googleapis.com:444/token", "",
	} {
		_, _, err := Provider().Exchange(context.Background(), nil,
			secret.New(`{"type":"authorized_user","client_secret":"s","refresh_token":"r","token_uri":"`+uri+`"}`))
		require.ErrorContains(t, err, "token_uri", uri)
	}
	require.Empty(t, asked())
	require.True(t, isGoogles(tokenURI))
}

func serviceAccount(t *testing.T, k *rsa.PrivateKey, tokenURI string) secret.Value {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	file, err := json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "acme", "private_key_id": "key-1", "client_email": "gate@acme.example.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokenURI,
	}, "", "  ")
	require.NoError(t, err)
	return secret.New(string(file))
}

func TestAServiceAccountsKeyIsExchanged(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	url, asked := tokenEndpoint(t, http.StatusOK, `{"access_token":"ya29.token","expires_in":3599,"token_type":"Bearer"}`)
	token, until, err := exchange(context.Background(), anywhere, serviceAccount(t, k, url))
	require.NoError(t, err)
	require.Equal(t, "ya29.token", token.Reveal())
	require.WithinDuration(t, time.Now().Add(3599*time.Second), until, time.Minute)

	require.Equal(t, "urn:ietf:params:oauth:grant-type:jwt-bearer", asked()["grant_type"])
	parts := strings.Split(asked()["assertion"], ".")
	require.Len(t, parts, 3)
	var decoded [3][]byte
	for i := range parts {
		decoded[i], err = base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	require.NoError(t, rsa.VerifyPKCS1v15(&k.PublicKey, crypto.SHA256, sum[:], decoded[2]),
		"the assertion is signed with RS256")
	require.Equal(t, "RS256", gjson.GetBytes(decoded[0], "alg").String())
	require.Equal(t, "key-1", gjson.GetBytes(decoded[0], "kid").String())
	claims := gjson.ParseBytes(decoded[1])
	require.Equal(t, "gate@acme.example.com", claims.Get("iss").String())
	require.Equal(t, "https://www.googleapis.com/auth/cloud-platform", claims.Get("scope").String())
	require.Equal(t, url, claims.Get("aud").String())
}

func TestAPersonsLoginIsExchanged(t *testing.T) {
	url, asked := tokenEndpoint(t, http.StatusOK, `{"access_token":"ya29.token","token_type":"Bearer"}`)
	token, until, err := exchange(context.Background(), anywhere,
		secret.New(`{"type":"authorized_user","client_id":"id","client_secret":"s","refresh_token":"r","token_uri":"`+url+
			`"}`))
	require.NoError(t, err)
	require.Equal(t, "ya29.token", token.Reveal())
	require.WithinDuration(t, time.Now().Add(leastLifetime), until, time.Minute,
		"a token of which nothing is said does not last for ever")
	require.Equal(t, "r", asked()["refresh_token"])
	require.Equal(t, "refresh_token", asked()["grant_type"])
}

func TestOtherCredentialsAreUsedAsTheyAre(t *testing.T) {
	for _, credential := range []string{"AIzaKey", "AQ.key", "ya29.token", " ya29.token\n"} {
		got, until, err := exchange(context.Background(), anywhere, secret.New(credential))
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(credential), got.Reveal())
		require.True(t, until.IsZero())
	}
}

func TestAnExchangeThatFailsTellsWhyAndNothingSecret(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	url, _ := tokenEndpoint(t, http.StatusBadRequest,
		`{"error":"invalid_grant","error_description":"Invalid JWT Signature.","private":"hidden-in-the-body"}`)
	refused := serviceAccount(t, k, url)
	for credential, want := range map[string]string{
		refused.Reveal(): "Invalid JWT Signature.",
		`{"type":"service_account","private_key":"hidden-in-the-key"`:  "not JSON",
		`{"type":"service_account","private_key":"hidden-in-the-key"}`: "client_email",
		`{"type":"service_account","client_email":"a","private_key":"hidden-in-the-key","token_uri":"` + url +
			`"}`: "private key",
		`{"type":"external_account","credential_source":{"file":"/etc/passwd"},"private_key":"hidden-in-the-key"}`: "external_account",
		`{"type":"authorized_user","client_secret":"hidden-in-the-key","refresh_token":"hidden-in-the-key","token_uri":"` +
			url + `"}`: "invalid_grant",
	} {
		_, _, err := exchange(context.Background(), anywhere, secret.New(credential))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hidden-in")
		require.NotContains(t, err.Error(), "PRIVATE KEY")
	}
}

func TestSign(t *testing.T) {
	for credential, want := range map[string]http.Header{
		"AIzaKey":    {"X-Goog-Api-Key": {"AIzaKey"}},
		"AQ.key":     {"X-Goog-Api-Key": {"AQ.key"}},
		"ya29.token": {"Authorization": {"Bearer ya29.token"}},
	} {
		r := provider.Request{Header: http.Header{}}
		require.NoError(t, Provider().Sign(&r, provider.Signing{Credential: secret.New(credential)}))
		require.Equal(t, want, r.Header)
	}
	r := provider.Request{Header: http.Header{}}
	require.Error(t, Provider().Sign(&r, provider.Signing{Credential: secret.New(`{"type":"service_account"}`)}))
	require.Empty(t, r.Header)
}
