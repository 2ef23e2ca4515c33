// Package identitytest runs a real provider of OpenID Connect: zitadel's, with its example's pages and storage.
package identitytest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// What the client and everybody have.
const (
	ClientID     = "modelgate"
	ClientSecret = "the-client's-secret"
	password     = "their-password"
)

// An Issuer is a provider.
type Issuer struct {
	URL string

	users map[string]*storage.User

	mu     sync.Mutex
	groups map[string][]string // by user; guarded by mu
}

// A provided storage adds groups to its claims about people.
type provided struct {
	*storage.Storage
	issuer *Issuer
}

// Start runs an issuer whose client may send people back to an address.
func Start(t testing.TB, back string) *Issuer {
	t.Helper()
	i := &Issuer{users: map[string]*storage.User{}, groups: map[string][]string{}}
	server := httptest.NewUnstartedServer(nil)
	i.URL = "http://" + server.Listener.Addr().String()
	kept := storage.NewStorageWithClients(i, map[string]*storage.Client{
		ClientID: storage.WebClient(ClientID, ClientSecret, back)})
	server.Config.Handler = exampleop.SetupServer(i.URL, &provided{kept, i}, slog.New(slog.DiscardHandler), false,
		op.WithAllowInsecure())
	server.Start()
	t.Cleanup(server.Close)
	return i
}

// Add adds somebody with a verified address of e-mail, and with groups.
func (i *Issuer) Add(name string, groups ...string) {
	i.AddWith(name, name+"@example.com", groups...)
}

// AddWith is Add of somebody with another address of e-mail, which others may have too.
func (i *Issuer) AddWith(name, email string, groups ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users[name] = &storage.User{ID: "id-of-" + name, Username: name, Password: password, FirstName: "Full",
		LastName: "Name", Email: email, EmailVerified: true}
	i.groups["id-of-"+name] = groups
}

// Unverified has the issuer say that it does not know whether somebody's address is theirs.
func (i *Issuer) Unverified(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users[name].EmailVerified = false
}

// Consent goes through the issuer's pages as somebody, from the client's redirect, and returns the address to
// which the issuer redirects.
func (i *Issuer) Consent(t testing.TB, page, name string) *url.URL {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, at string, form url.Values) *url.URL {
		r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		to, err := answer.Location()
		require.NoError(t, err, "%d %s", answer.StatusCode, body)
		return to
	}
	login := send(http.MethodGet, page, nil)
	entered := send(http.MethodPost, i.URL+login.Path, url.Values{"id": {login.Query().Get("authRequestID")},
		"username": {name}, "password": {password}})
	return send(http.MethodGet, entered.String(), nil)
}

// GetUserByID implements storage.UserStore.
func (i *Issuer) GetUserByID(id string) *storage.User {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, u := range i.users {
		if u.ID == id {
			return u
		}
	}
	return nil
}

// GetUserByUsername implements storage.UserStore.
func (i *Issuer) GetUserByUsername(name string) *storage.User {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.users[name]
}

// ExampleClientID implements storage.UserStore.
func (*Issuer) ExampleClientID() string { return "service" }

func (i *Issuer) tell(info *oidc.UserInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	info.AppendClaims("groups", i.groups[info.Subject])
}

// SetUserinfoFromToken implements op.Storage, for the endpoint userinfo.
func (p *provided) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject,
	origin string) error {
	err := p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
	p.issuer.tell(info)
	return err
}
