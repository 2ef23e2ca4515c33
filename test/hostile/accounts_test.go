package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/identity/identitytest"
	"github.com/modelgate/modelgate/test/harness"
)

const knownPassword = "a password that others know"

// A company is a gateway with an identity provider, "corp", its directory, and an administrator of a tenant.
type company struct {
	*harness.Gateway
	t      *testing.T
	issuer *identitytest.Issuer
	scim   string // token of the directory
	tenant string // token of the command line of the tenant's administrator
}

func newCompany(t *testing.T) *company {
	c := &company{Gateway: harness.Run(t, t.TempDir()), t: t}
	c.issuer = identitytest.Start(t, c.Admin+"/sign-in/with/corp/back")
	c.Apply(t, &configv1.Organization{Name: "acme"}, &configv1.IdentityProvider{Name: "corp", Issuer: c.issuer.URL,
		ClientId:     identitytest.ClientID,
		ClientSecret: &configv1.Credential{Source: &configv1.Credential_Value{Value: identitytest.ClientSecret}},
		Roles: []*configv1.GroupRole{{Group: "owners", Role: configv1.Role_OWNER},
			{Group: "staff", Role: configv1.Role_VIEWER}}},
		&configv1.Account{Name: "tadmin", Password: knownPassword,
			Memberships: []*configv1.Membership{{Organization: "acme", Role: configv1.Role_ADMIN}}})
	status, made := c.api("POST", "/admin/v1/admintokens", c.root(),
		`{"display_name":"scim","scopes":["scim"],"identity_provider":"corp"}`)
	require.Equal(t, 201, status, made)
	c.scim = made["token"].(string)
	c.tenant = c.visitor().commandLine("tadmin")
	require.NotEmpty(t, c.tenant)
	return c
}

func (c *company) root() string { return c.File(c.t, "admin-token") }

// api sends a request to the admin API or SCIM.
func (c *company) api(method, path, token, body string) (int, map[string]any) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.Admin+path, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := c.Client.Do(r)
	require.NoError(c.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(c.t, err)
	var got map[string]any
	_ = json.Unmarshal(text, &got) // it may be empty
	return answer.StatusCode, got
}

// prepare has the tenant's administrator make an account with a password that they know.
func (c *company) prepare(name, more string) (int, map[string]any) {
	c.t.Helper()
	return c.api("PUT", "/admin/v1/accounts/"+name, c.tenant, `{"name":"`+name+`","password":"`+knownPassword+`",`+more+
		`"memberships":[{"organization":"acme","role":"VIEWER"}]}`)
}

func (c *company) account(name string) map[string]any {
	c.t.Helper()
	status, a := c.api("GET", "/admin/v1/accounts/"+name, c.root(), "")
	require.Equal(c.t, 200, status)
	return a
}

// provision has the directory make a person, and put them into a group.
func (c *company) provision(name, group string) {
	c.t.Helper()
	status, user := c.api("POST", "/scim/v2/Users", c.scim, `{"userName":"`+name+`","active":true}`)
	require.Equal(c.t, 201, status, user)
	status, made := c.api("POST", "/scim/v2/Groups", c.scim, fmt.Sprintf(
		`{"displayName":%q,"members":[{"value":%q}]}`, group, user["id"]))
	require.Equal(c.t, 201, status, made)
}

// A visitor is a browser at the dashboard.
type visitor struct {
	*company
	client *http.Client
	csrf   string
}

func (c *company) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	require.NoError(c.t, err)
	client := *c.Client
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{company: c, client: &client}
}

var formToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// page goes to a page, or sends the form of the last one, and returns what the page says and where it leads.
func (v *visitor) page(path string, form url.Values) (status int, text, location string) {
	v.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
		form.Set("csrf", v.csrf)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.Admin+path, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := v.client.Do(r)
	require.NoError(v.t, err)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(v.t, err)
	if m := formToken.FindSubmatch(body); m != nil {
		v.csrf = string(m[1])
	}
	return answer.StatusCode, string(body), answer.Header.Get("Location")
}

// withPassword signs in with the password that others know.
func (v *visitor) withPassword(name string) int {
	v.t.Helper()
	v.page("/sign-in", nil)
	status, _, _ := v.page("/sign-in", url.Values{"name": {name}, "password": {knownPassword}})
	return status
}

// atIssuer signs in as somebody whom the issuer knows.
func (v *visitor) atIssuer(name string) (status int, text string) {
	v.t.Helper()
	_, _, at := v.page("/sign-in/with/corp", nil)
	status, text, _ = v.page(v.issuer.Consent(v.t, at, name).RequestURI(), nil)
	return status, text
}

// commandLine returns the token of a command line in which somebody has signed in by password; empty: they cannot.
func (v *visitor) commandLine(name string) string {
	v.t.Helper()
	if v.withPassword(name) != http.StatusSeeOther {
		return ""
	}
	return v.terminal()
}

// terminal returns the token of a command line that whoever is signed in lets in.
func (v *visitor) terminal() string {
	v.t.Helper()
	verifier := oauth2.GenerateVerifier()
	asked := url.Values{"port": {"23456"}, "state": {"s"}, "challenge": {oauth2.S256ChallengeFromVerifier(verifier)}}
	v.page(adminapi.PathTerminal+"?"+asked.Encode(), nil)
	_, text, _ := v.page(adminapi.PathTerminal, asked)
	code := regexp.MustCompile(`code=([^&"]+)`).FindStringSubmatch(text)
	require.Len(v.t, code, 2, text)
	status, got := v.api("POST", adminapi.PathTerminalToken, "",
		fmt.Sprintf(`{"code":%q,"verifier":%q}`, code[1], verifier))
	require.Equal(v.t, 200, status, got)
	return got["token"].(string)
}

func TestAccountsHaveOneAuthority(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	identity := `"identity":{"issuer":"` + c.issuer.URL + `"},`

	t.Run("a tenant gives no account an identity", func(t *testing.T) {
		for _, more := range []string{identity, strings.Replace(identity, `"}`, `","subject":"id-of-chief"}`, 1),
			`"provisioning":{"provider":"corp","id":"usr_1","user_name":"chief"},` + identity} {
			status, got := c.prepare("chief@example.com", more)
			require.Equal(t, 403, status, got)
		}
		status, _ := c.prepare("chief@example.com", "")
		require.Equal(t, 201, status)
		status, got := c.prepare("chief@example.com", identity)
		require.Equal(t, 403, status, "nor an account that there is")
		require.Contains(t, fmt.Sprint(got), "people of a tenant cannot set the identity")
	})

	t.Run("a directory takes over an account without what others know", func(t *testing.T) {
		squatter := c.visitor()
		token := squatter.commandLine("chief@example.com")
		require.NotEmpty(t, token)
		c.provision("Chief@example.com", "owners")
		require.Equal(t, "OWNER", c.account("chief@example.com")["role"])
		require.Nil(t, c.account("chief@example.com")["memberships"])
		require.Empty(t, c.visitor().commandLine("chief@example.com"), "the password is gone")
		status, _, _ := squatter.page("/account", nil)
		require.Equal(t, 303, status, "the session has ended")
		status, _ = c.api("GET", "/admin/v1/keys", token, "")
		require.Equal(t, 401, status, "the command line is signed out")
		status, _ = c.prepare("chief@example.com", "")
		require.Equal(t, 403, status, "the tenant does not write it any more")
		c.issuer.Add("chief")
		status, text := c.visitor().atIssuer("chief")
		require.Equal(t, 303, status, text)
	})

	t.Run("a sign-in takes over an account without what others know", func(t *testing.T) {
		status, _ := c.prepare("boss@example.com", `"disabled":true,`)
		require.Equal(t, 201, status)
		c.issuer.Add("boss", "owners")
		status, text := c.visitor().atIssuer("boss")
		require.Equal(t, 303, status, text)
		require.Equal(t, "OWNER", c.account("boss@example.com")["role"])
		require.Empty(t, c.visitor().commandLine("boss@example.com"))
		_, log := c.api("GET", "/admin/v1/audit?kind=Account", c.root(), "")
		require.Contains(t, fmt.Sprint(log), "lost: all sessions, the password, acme VIEWER")
	})

	t.Run("operators' accounts are not taken over", func(t *testing.T) {
		c.Apply(t, &configv1.Account{Name: "ops@example.com", Role: configv1.Role_VIEWER, Password: knownPassword})
		c.issuer.Add("ops", "owners")
		status, _ := c.visitor().atIssuer("ops")
		require.Equal(t, 403, status)
		status, _ = c.api("POST", "/scim/v2/Users", c.scim, `{"userName":"ops@example.com"}`)
		require.Equal(t, 409, status)
		require.Equal(t, "VIEWER", c.account("ops@example.com")["role"])
	})

	t.Run("a name of another alphabet is no name", func(t *testing.T) {
		c.Apply(t, &configv1.Account{Name: "kim@example.com", Identity: &configv1.Identity{Issuer: c.issuer.URL},
			Memberships: []*configv1.Membership{{Organization: "acme", Role: configv1.Role_ADMIN}}})
		before := c.account("kim@example.com")
		for i, name := range []string{"\u212aim@example.com", "k\u0130m@example.com"} {
			c.issuer.AddWith(fmt.Sprint("evil", i), name, "staff")
			status, text := c.visitor().atIssuer(fmt.Sprint("evil", i))
			require.Equal(t, 403, status)
			require.Contains(t, text, "letters of ASCII")
			body := bytes.Buffer{}
			require.NoError(t, json.NewEncoder(&body).Encode(map[string]any{"userName": name}))
			status, _ = c.api("POST", "/scim/v2/Users", c.scim, body.String())
			require.Equal(t, 400, status)
		}
		require.Equal(t, before, c.account("kim@example.com"))
		c.issuer.AddWith("kim", "Kim@Example.com", "staff")
		status, text := c.visitor().atIssuer("kim")
		require.Equal(t, 303, status, text)
	})
}
