package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/claims"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	// patience is how long an issuer may take to answer.
	patience = 10 * time.Second
	// discoveredFor is how long what an issuer says of itself is believed. Its keys are read when one is missing.
	discoveredFor = 10 * time.Minute
	// maxAnswer bounds the answers of an issuer, in bytes.
	maxAnswer = 1 << 20
)

// An issuer is what an issuer says of itself.
type issuer struct {
	*oidc.Provider
	EndSession string
	http       *http.Client
	read       time.Time
}

// issuers remembers issuers by their configuration.
type issuers struct {
	reading singleflight.Group
	mu      sync.Mutex
	known   map[string]*issuer // guarded by mu
}

// of returns the issuer of a provider. Of many who ask at once, one reads it.
func (all *issuers) of(ctx context.Context, p *configv1.IdentityProvider) (*issuer, error) {
	key := p.GetIssuer() + "\n" + p.GetCa()
	all.mu.Lock()
	i := all.known[key]
	all.mu.Unlock()
	if i != nil && time.Since(i.read) < discoveredFor {
		return i, nil
	}
	done := all.reading.DoChan(key, func() (any, error) {
		found, err := discover(p)
		if err != nil {
			return nil, err
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.known == nil || len(all.known) > 100 { // of objects that were changed often
			all.known = map[string]*issuer{}
		}
		all.known[key] = found
		return found, nil
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*issuer), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Client returns a client for an issuer, which trusts the system's authorities, or only the authorities of a PEM
// text. Its answers and their time are bounded.
func Client(authorities string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if authorities != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(authorities))
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &http.Client{Transport: bounded{transport}, Timeout: patience}
}

// discover asks an issuer for its endpoints.
func discover(p *configv1.IdentityProvider) (*issuer, error) {
	i := &issuer{http: Client(p.GetCa()), read: time.Now()}
	var err error
	// Later reads of keys use this context too.
	if i.Provider, err = oidc.NewProvider(oidc.ClientContext(context.Background(), i.http), p.GetIssuer()); err != nil {
		return nil, err
	}
	var more struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err := i.Claims(&more); err != nil {
		return nil, err
	}
	i.EndSession = more.EndSession
	return i, nil
}

// client returns the client of OAuth that a provider configures.
func (i *issuer) client(p *configv1.IdentityProvider, back string, hidden secret.Value) *oauth2.Config {
	return &oauth2.Config{ClientID: p.GetClientId(), ClientSecret: hidden.Reveal(), Endpoint: i.Endpoint(),
		RedirectURL: back, Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.GetScopes()...)}
}

// said is what an issuer says of a person.
type said struct {
	token   string // the ID token
	subject string
	all     claims.Claims
}

// exchange redeems a grant, and checks the ID token: its signature by a key of the issuer, its issuer, audience and
// times, and that it belongs to this flow.
func (i *issuer) exchange(ctx context.Context, client *oauth2.Config, grant string, f Flow) (said, error) {
	ctx = oidc.ClientContext(ctx, i.http)
	tokens, err := client.Exchange(ctx, grant, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return said{}, redeemError(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := i.VerifierContext(ctx, &oidc.Config{ClientID: client.ClientID}).Verify(ctx, raw)
	if err != nil {
		return said{}, err
	}
	got := said{token: raw, subject: token.Subject}
	if err := token.Claims(&got.all); err != nil {
		return said{}, err
	}
	azp, err := got.all.Text("azp")
	switch {
	case err != nil:
		return said{}, err
	case token.Nonce != f.Nonce:
		return said{}, errors.New("the ID token is of another sign-in: its nonce differs")
	case token.Subject == "":
		return said{}, errors.New("the ID token has no subject")
	case len(token.Audience) > 1 && azp != client.ClientID || azp != "" && azp != client.ClientID:
		return said{}, errors.New("the ID token is for another client: azp differs")
	}
	return got, i.addUserInfo(ctx, tokens, got)
}

// addUserInfo adds the claims that only the endpoint userinfo has. Whether an address is verified is said of the
// address beside it: if there are two, it is not said of both.
func (i *issuer) addUserInfo(ctx context.Context, tokens *oauth2.Token, got said) error {
	if i.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := i.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return err
	}
	if info.Subject != got.subject {
		return errors.New("userinfo is about another person")
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return err
	}
	const address, verified = "email", "email_verified"
	if theirs, there := more[address].(string); got.all[address] == nil && there {
		delete(got.all, verified)
	} else if ours, _ := got.all[address].(string); ours != theirs {
		delete(more, verified)
	}
	for name, value := range more {
		if _, signed := got.all[name]; !signed {
			got.all[name] = value
		}
	}
	return nil
}

// redeemError returns the error of a code that was not redeemed, without what the issuer wrote beside the code of the
// error.
func redeemError(err error) error {
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := 0
		if r.Response != nil {
			status = r.Response.StatusCode
		}
		return fmt.Errorf("the code was not redeemed: status %d, error %.64q", status, r.ErrorCode)
	}
	return fmt.Errorf("the code was not redeemed: %w", err)
}

// bounded is a transport that reads a bounded part of an answer.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}
