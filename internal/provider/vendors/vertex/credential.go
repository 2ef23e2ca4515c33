package vertex

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// scope is what access tokens are asked for.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// exchangeTimeout bounds an exchange: the library does not heed its context's deadline.
const exchangeTimeout = 30 * time.Second

// leastLifetime is the lifetime assumed for an access token without expires_in.
const leastLifetime = 10 * time.Minute

// tokenURI is where Google exchanges keys for tokens.
const tokenURI = "https://oauth2.googleapis.com/token"

// A key is a credential as Google writes it to a file.
type key struct {
	Type         string `json:"type"`
	ClientEmail  string `json:"client_email"`
	PrivateKey   string `json:"private_key"`
	PrivateKeyID string `json:"private_key_id"`
	TokenURI     string `json:"token_uri"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`
}

// isGoogles reports whether Google exchanges credentials at the URL. A credential says itself where it is to be sent,
// and whoever writes one could have the control plane ask any address.
func isGoogles(tokenURI string) bool {
	u, err := url.Parse(tokenURI)
	return err == nil && u.Scheme == "https" && u.User == nil &&
		slices.Contains([]string{"oauth2.googleapis.com", "accounts.google.com", "www.googleapis.com"}, u.Host)
}

// exchanging returns what turns the key of a service account, or the login of a person, into an access token, at a URL
// that is trusted. API keys and access tokens are used as they are.
func exchanging(trusted func(tokenURI string) bool) func(context.Context, *configv1.Provider,
	secret.Value) (secret.Value, time.Time, error) {
	return func(ctx context.Context, _ *configv1.Provider, credential secret.Value) (secret.Value, time.Time, error) {
		return exchange(ctx, trusted, credential)
	}
}

func exchange(ctx context.Context, trusted func(string) bool, credential secret.Value) (secret.Value, time.Time,
	error) {
	text := strings.TrimSpace(credential.Reveal())
	if !strings.HasPrefix(text, "{") {
		return secret.New(text), time.Time{}, nil
	}
	k := key{TokenURI: tokenURI}
	if json.Unmarshal([]byte(text), &k) != nil {
		return secret.Value{}, time.Time{},
			errors.New("the credential begins like a key file but is not JSON; give the whole file as Google wrote it")
	}
	if !trusted(k.TokenURI) {
		return secret.Value{}, time.Time{},
			errors.New("the credential's token_uri is not Google's; it is https://oauth2.googleapis.com/token")
	}
	source, err := k.source(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: exchangeTimeout}))
	if err != nil {
		return secret.Value{}, time.Time{}, err
	}
	token, err := source.Token()
	if err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("exchanging the credential for an access token: %w", withoutBody(err))
	}
	expiry := token.Expiry
	if expiry.IsZero() { // it does expire, though the endpoint does not say when
		expiry = time.Now().Add(leastLifetime)
	}
	return secret.New(token.AccessToken), expiry, nil
}

func (k *key) source(ctx context.Context) (oauth2.TokenSource, error) {
	switch k.Type {
	case "service_account":
		if k.ClientEmail == "" || k.PrivateKey == "" {
			return nil,
				errors.New("the service account's key lacks client_email or private_key; create a new key and give the whole file")
		}
		c := jwt.Config{Email: k.ClientEmail, PrivateKey: []byte(k.PrivateKey), PrivateKeyID: k.PrivateKeyID,
			Scopes: []string{scope}, TokenURL: k.TokenURI}
		return c.TokenSource(ctx), nil
	case "authorized_user":
		c := oauth2.Config{ClientID: k.ClientID, ClientSecret: k.ClientSecret,
			Endpoint: oauth2.Endpoint{TokenURL: k.TokenURI}}
		return c.TokenSource(ctx, &oauth2.Token{RefreshToken: k.RefreshToken}), nil
	}
	return nil,
		fmt.Errorf(
			"credentials of the type %q are not supported; use the key of a service account, an access token or an API key",
			k.Type)
}

// withoutBody leaves of an error of the token endpoint what it says of the reason: the rest is not ours to show.
func withoutBody(err error) error {
	if retrieve, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := ""
		if retrieve.Response != nil {
			status = retrieve.Response.Status
		}
		reason := gjson.GetManyBytes(retrieve.Body, "error", "error_description")
		return fmt.Errorf("the token endpoint answered %s: %s %s", status, reason[0].Str, reason[1].Str)
	}
	return err
}

// keyPrefixes begin API keys, of the older and the newer kind.
var keyPrefixes = []string{"AIza", "AQ."}

func sign(r *provider.Request, s provider.Signing) error {
	text := s.Credential.Reveal()
	if strings.HasPrefix(text, "{") {
		return errors.New(
			"the credential is a key file, which requests cannot be signed with before it is exchanged for an access token")
	}
	for _, prefix := range keyPrefixes {
		if strings.HasPrefix(text, prefix) {
			r.Header.Set("X-Goog-Api-Key", text)
			return nil
		}
	}
	r.Header.Set("Authorization", "Bearer "+text)
	return nil
}
