// Package identity signs people in with an account elsewhere, by OpenID Connect: authorization code with PKCE
// (https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth). It knows no pages and stores nothing. What of
// a flow must be remembered is a Flow, which the browser keeps.
package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// Config configures a Service. Every field is required.
type Config struct {
	// Providers returns the identity providers of the configuration, in order. They are not modified.
	Providers func(context.Context) ([]*configv1.IdentityProvider, error)
	// Secret returns the secret of a provider's client, which is sent to an endpoint of its issuer. It is zero if the
	// client has none.
	Secret func(p *configv1.IdentityProvider, endpoint string) (secret.Value, error)
}

// ProvidersOf reads the identity providers of the configuration. One that cannot be read is left out.
func ProvidersOf(store *configstore.Store) func(context.Context) ([]*configv1.IdentityProvider, error) {
	return func(ctx context.Context) ([]*configv1.IdentityProvider, error) {
		entries, err := store.List(ctx, configv1.KindOf((*configv1.IdentityProvider)(nil)))
		var all []*configv1.IdentityProvider
		for _, e := range entries {
			if p, ok := e.Object.(*configv1.IdentityProvider); ok {
				all = append(all, p)
			}
		}
		return all, err
	}
}

// A Service signs people in. It is safe for concurrent use.
type Service struct {
	config  Config
	issuers issuers
}

// New returns a service.
func New(c Config) *Service { return &Service{config: c} }

// A Flow is a sign-in that has begun. Only the browser that began it may end it, so it belongs in a cookie that
// other sites neither read nor write.
type Flow struct {
	Provider string `json:"provider"`
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // of PKCE
	Next     string `json:"next"`     // page to show after it
}

// Providers returns the providers that people can sign in with.
func (s *Service) Providers(ctx context.Context) ([]*configv1.IdentityProvider, error) {
	all, err := s.config.Providers(ctx)
	return slices.DeleteFunc(slices.Clone(all), (*configv1.IdentityProvider).GetDisabled), err
}

// find returns a provider by its name.
func (s *Service) find(ctx context.Context, name string) (*configv1.IdentityProvider, error) {
	all, err := s.Providers(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p *configv1.IdentityProvider) bool { return p.GetName() == name })
	if i < 0 {
		return nil, &openai.Error{Status: http.StatusNotFound, Message: "There is no such identity provider, or it is disabled."}
	}
	return all[i], nil
}

// Begin returns a new flow, and the provider's page for it. Back is the address to which the provider sends the
// browser back.
func (s *Service) Begin(ctx context.Context, name, back, next string) (Flow, string, error) {
	p, err := s.find(ctx, name)
	if err != nil {
		return Flow{}, "", err
	}
	i, err := s.issuers.of(ctx, p)
	if err != nil {
		return Flow{}, "", away(p, err)
	}
	f := Flow{Provider: name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next}
	// the secret is not needed here
	return f, i.client(p, back, secret.Value{}).AuthCodeURL(f.State, oidc.Nonce(f.Nonce),
		oauth2.S256ChallengeOption(f.Verifier)), nil
}

// End checks the provider's answer at the end of a flow, in the parameters that the browser brought back, and
// returns who signed in.
func (s *Service) End(ctx context.Context, f Flow, said url.Values, back string) (*Person, error) {
	if subtle.ConstantTimeCompare([]byte(said.Get("state")), []byte(f.State)) != 1 || f.State == "" {
		return nil, errStale
	}
	p, err := s.find(ctx, f.Provider)
	if err != nil {
		return nil, err
	}
	if reason := said.Get("error"); reason != "" {
		return nil, refused(p, reason)
	}
	// RFC 9207: an answer of another issuer is no answer
	if iss := said.Get("iss"); iss != "" && iss != p.GetIssuer() {
		return nil, errStale
	}
	i, err := s.issuers.of(ctx, p)
	if err != nil {
		return nil, away(p, err)
	}
	hidden, err := s.config.Secret(p, i.Endpoint().TokenURL)
	if err != nil {
		return nil, fmt.Errorf("the secret of IdentityProvider %s: %w", p.GetName(), err)
	}
	got, err := i.exchange(ctx, i.client(p, back, hidden), said.Get("code"), f)
	if err != nil {
		return nil, away(p, err)
	}
	return personOf(p, got)
}

// SignOut returns the page that ends somebody's session at the provider and then leads back, or "" if the provider
// has none.
func (s *Service) SignOut(ctx context.Context, name, idToken, back string) string {
	p, err := s.find(ctx, name)
	if err != nil {
		return ""
	}
	i, err := s.issuers.of(ctx, p)
	if err != nil || i.EndSession == "" {
		return ""
	}
	u, err := url.Parse(i.EndSession)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.GetClientId())
	q.Set("id_token_hint", idToken)
	q.Set("post_logout_redirect_uri", back)
	u.RawQuery = q.Encode()
	return u.String()
}

// Test returns why nobody can sign in with a provider: it cannot be reached, is not who it says, or its client has no
// secret; nil if it seems that people can.
func (s *Service) Test(ctx context.Context, p *configv1.IdentityProvider) error {
	i, err := s.issuers.of(ctx, p)
	if err != nil {
		return err
	}
	_, err = s.config.Secret(p, i.Endpoint().TokenURL)
	return err
}

// errStale is the error of an answer that is not of the browser's own flow.
var errStale = openai.CodeStaleForm.New("This sign-in did not begin in this browser, it took longer than ten minutes, or it has ended already. Sign in again.")

// reasonPattern is what an error of OAuth looks like. Whatever else a link says is not repeated.
var reasonPattern = regexp.MustCompile(`^[a-z_]{1,64}$`)

func refused(p *configv1.IdentityProvider, reason string) error {
	if !reasonPattern.MatchString(reason) {
		reason = "an error"
	}
	return &openai.Error{Status: http.StatusForbidden,
		Message: fmt.Sprintf("%s did not sign you in: %s.", p.GetName(), reason)}
}

// away is the error of a provider that cannot be reached, or whose answers are wrong. The cause is for the log.
func away(p *configv1.IdentityProvider, err error) error {
	status, message := http.StatusBadGateway,
		"The identity provider %s cannot be used now. The gateway's log contains the cause."
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	return &Failure{Provider: p.GetName(), Cause: err,
		Shown: &openai.Error{Status: status, Message: fmt.Sprintf(message, p.GetName())}}
}

// A Failure is an error of a provider. Shown is the part that the person may see.
type Failure struct {
	Provider string
	Cause    error
	Shown    *openai.Error
}

// Error implements error.
func (f *Failure) Error() string { return "identity provider " + f.Provider + ": " + f.Cause.Error() }

// Unwrap returns what the person may see.
func (f *Failure) Unwrap() error { return f.Shown }
