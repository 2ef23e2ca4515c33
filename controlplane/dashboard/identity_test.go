package dashboard_test

import (
	"html"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/identity/identitytest"
)

// withProvider runs an issuer, and adds it to the configuration as "corp".
func (b *bench) withProvider(t *testing.T, change func(*configv1.IdentityProvider)) *identitytest.Issuer {
	t.Helper()
	i := identitytest.Start(t, b.url+"/sign-in/with/corp/back")
	p := &configv1.IdentityProvider{Name: "corp", DisplayName: "Corp", Issuer: i.URL, ClientId: identitytest.ClientID,
		ClientSecret: &configv1.Credential{Source: &configv1.Credential_Value{Value: identitytest.ClientSecret}},
		Roles: []*configv1.GroupRole{{Group: "ops", Role: configv1.Role_OPERATOR},
			{Group: "staff", Role: configv1.Role_VIEWER}, {Group: "admins", Role: configv1.Role_OWNER}}}
	if change != nil {
		change(p)
	}
	b.put(t, p)
	return i
}

func (b *bench) put(t *testing.T, o configv1.Object) {
	t.Helper()
	item, _ := b.api.Get(t.Context(), configv1.KindOf(o), o.GetName()) // it may not be there
	_, err := b.api.Put(t.Context(), o, item.Status.Revision)
	require.NoError(t, err)
}

func (b *bench) account(t *testing.T, name string) *configv1.Account {
	t.Helper()
	item, err := b.api.Get(t.Context(), configv1.KindOf((*configv1.Account)(nil)), name)
	require.NoError(t, err)
	return item.Object.(*configv1.Account)
}

// signInAt goes through the pages of an issuer, and returns what the dashboard then says.
func (w *browser) signInAt(i *identitytest.Issuer, name, next string) shown {
	w.t.Helper()
	p := w.get("/sign-in/with/corp?next=" + url.QueryEscape(next))
	require.Equal(w.t, 303, p.status, text(p.body))
	return w.get(i.Consent(w.t, p.location, name).RequestURI())
}

func TestSignInAtAnIdentityProvider(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	i.Add("grace", "staff", "ops")
	w := b.browser(t)
	require.Contains(t, text(w.get("/sign-in?next=/keys").body), "Sign in with Corp")
	p := w.signInAt(i, "grace", "/providers")
	require.Equal(t, 303, p.status, text(p.body))
	require.Equal(t, "/providers", p.location)
	require.Equal(t, 200, w.get("/providers").status)
	require.Equal(t, 403, w.get("/accounts").status, "an operator")

	made := b.account(t, "grace@example.com")
	require.Equal(t, configv1.Role_OPERATOR, made.GetRole(), "the highest of two")
	require.Equal(t, "Full Name", made.GetDisplayName())
	require.Equal(t, i.URL+" id-of-grace", made.GetIdentity().GetIssuer()+" "+made.GetIdentity().GetSubject())
	require.NotContains(t, w.get("/account").body, "new-password", "there is no password to change")

	second := b.browser(t)
	require.Equal(t, 303, second.signInAt(i, "grace", "/").status)
	require.Equal(t, 200, w.get("/account").status, "the same account, unchanged: both go on")

	i.Add("grace", "staff")
	require.Equal(t, 303, second.signInAt(i, "grace", "/").status)
	require.Equal(t, configv1.Role_VIEWER, b.account(t, "grace@example.com").GetRole())
	require.Equal(t, 303, w.get("/account").status, "a session with the rights of before has ended")

	i.Add("grace", "others")
	p = b.browser(t).signInAt(i, "grace", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "no group that may use this gateway")
	require.Equal(t, []string{"sign_in", "sign_in", "sign_in", "sign_in_failed"}, b.actions())
}

func TestSignInOfSomebodyWhoIsProvisioned(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, func(p *configv1.IdentityProvider) { p.ProvisionedOnly = true })
	i.Add("grace", "admins")
	p := b.browser(t).signInAt(i, "grace", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "has not provisioned an account for you")

	b.put(t, &configv1.IdentityGroup{Name: "grp_1", DisplayName: "ops", Provider: "corp"})
	grace := &configv1.Account{Name: "grace@example.com", DisplayName: "Grace", Role: configv1.Role_OPERATOR,
		Identity: &configv1.Identity{Issuer: i.URL},
		Provisioning: &configv1.Provisioning{Provider: "corp", Id: "usr_1", UserName: "Grace@example.com",
			Groups: []string{"grp_1"}}}
	b.put(t, grace)
	w := b.browser(t)
	require.Equal(t, 303, w.signInAt(i, "grace", "/").status)
	signedIn := b.account(t, "grace@example.com")
	require.Equal(t, "id-of-grace", signedIn.GetIdentity().GetSubject())
	require.Equal(t, configv1.Role_OPERATOR, signedIn.GetRole(), "not that of the claims")
	require.Equal(t, "Grace", signedIn.GetDisplayName())
	owner := b.owner(t)
	require.Contains(t, text(owner.get("/accounts/grace@example.com").body), "The identity provider corp provisions")
	require.NotContains(t, owner.get("/accounts/grace@example.com").body, `name="role"`)
	require.Contains(t, owner.get("/accounts").body, "provisioned")

	grace = signedIn
	grace.Provisioning.Inactive = true
	b.put(t, grace)
	require.Equal(t, 303, w.get("/account").status, "the session has ended")
	p = b.browser(t).signInAt(i, "grace", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "has deactivated your account")
	grace.Provisioning.Inactive = false
	b.put(t, grace)
	require.Equal(t, 303, w.signInAt(i, "grace", "/").status)
	b.put(t, &configv1.IdentityGroup{Name: "grp_1", DisplayName: "staff", Provider: "corp"})
	require.Equal(t, 303, w.get("/account").status, "a change of the role ends it too")
	require.Equal(t, configv1.Role_VIEWER, b.account(t, "grace@example.com").GetRole())
}

func TestAnIdentityTakesOverNoAccount(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	b.person(t, owner, "grace@example.com", "OWNER")
	i := b.withProvider(t, nil)
	i.Add("grace", "staff")
	p := b.browser(t).signInAt(i, "grace", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "is of somebody else")
	require.Equal(t, configv1.Role_OWNER, b.account(t, "grace@example.com").GetRole())

	b.put(t, &configv1.Account{Name: "new@example.com", Role: configv1.Role_VIEWER,
		Identity: &configv1.Identity{Issuer: i.URL}})
	i.Add("new", "staff")
	require.Equal(t, 303, b.browser(t).signInAt(i, "new", "/").status, "made in advance")
	require.Equal(t, "id-of-new", b.account(t, "new@example.com").GetIdentity().GetSubject())

	changed := b.account(t, "new@example.com")
	changed.Identity.Subject = "who had the address before"
	b.put(t, changed)
	require.Equal(t, 403, b.browser(t).signInAt(i, "new", "/").status, "an address that was given to another person")

	changed.Identity.Subject, changed.Disabled = "id-of-new", true
	b.put(t, changed)
	p = b.browser(t).signInAt(i, "new", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "disabled")

	i.Add("liar", "admins")
	i.Unverified("liar")
	p = b.browser(t).signInAt(i, "liar", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "has not verified your e-mail address")
}

func TestASignInElsewhereIsOfOneBrowser(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	i.Add("eve", "admins")
	eve, victim := b.browser(t), b.browser(t)
	back := i.Consent(t, eve.get("/sign-in/with/corp").location, "eve").RequestURI()
	require.Equal(t, 403, victim.get(back).status, "somebody else's answer, of a link")
	victim.get("/sign-in/with/corp")
	require.Equal(t, 403, victim.get(back).status, "with a flow of its own under way")
	require.Equal(t, 403, victim.get("/sign-in/with/corp/back?state=&code=x").status)
	require.Equal(t, 403, victim.get("/sign-in/with/corp/back").status)
	require.Equal(t, 303, eve.get(back).status)
	require.Equal(t, 403, b.browser(t).get(back).status)
	require.Equal(t, 403, eve.get(back).status, "it is over")
	require.Equal(t, 404, victim.get("/sign-in/with/nobody").status)

	b.pass(time.Minute) // so many errors make the address wait
	w := b.browser(t)
	state := must(url.Parse(w.get("/sign-in/with/corp").location)).Query().Get("state")
	p := w.get("/sign-in/with/corp/back?error=access_denied&error_description=call+0900&state=" + state)
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "access_denied")
	require.NotContains(t, text(p.body), "0900", "what a link says is not repeated")

	for _, next := range []string{"https://evil.example/", "//evil.example"} {
		require.Equal(t, "/", b.browser(t).signInAt(i, "eve", next).location)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSessionsOfAnIdentityProviderEnd(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	i.Add("grace", "staff")
	w := b.browser(t)
	require.Equal(t, 303, w.signInAt(i, "grace", "/").status)
	b.pass(6 * time.Hour)
	require.Equal(t, 200, w.get("/account").status)
	b.pass(6 * time.Hour)
	require.Equal(t, 303, w.get("/account").status, "after 12 hours the provider is asked again")

	require.Equal(t, 303, w.signInAt(i, "grace", "/").status)
	w.get("/account")
	p := w.post("/sign-out")
	require.Equal(t, 200, p.status)
	link := regexp.MustCompile(`<a href="(` + i.URL + `[^"]*)"`).FindStringSubmatch(p.body)
	require.Len(t, link, 2, "%s", p.body)
	page := must(url.Parse(html.UnescapeString(link[1])))
	require.Equal(t, "/end_session", page.Path)
	require.Equal(t, b.url+"/sign-in?done=signed_out", page.Query().Get("post_logout_redirect_uri"))
	require.NotEmpty(t, page.Query().Get("id_token_hint"))
	require.Equal(t, 303, w.get("/account").status)
}

func TestPasswordsCanBeReplaced(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	b.person(t, owner, "old", "OPERATOR")
	b.withProvider(t, func(p *configv1.IdentityProvider) { p.ReplacesPasswords = true })
	right, wrong := b.browser(t).signIn("old", goodPassword), b.browser(t).signIn("old", "not the password")
	require.Equal(t, 401, right.status)
	require.Equal(t, csrfField.ReplaceAllString(wrong.body, ""), csrfField.ReplaceAllString(right.body, ""),
		"a guess is not confirmed")
	require.Contains(t, text(right.body), "sign in with Corp")
	require.Equal(t, 303, b.browser(t).signIn("ada", goodPassword).status, "whom a link made")
	p, err := b.api.Get(t.Context(), kind("identityproviders"), "corp")
	require.NoError(t, err)
	off := p.Object.(*configv1.IdentityProvider)
	off.Disabled = true
	b.put(t, off)
	require.Equal(t, 303, b.browser(t).signIn("old", goodPassword).status)
	require.Equal(t, 404, b.browser(t).get("/sign-in/with/corp").status)
}

func TestAnIdentityProviderThatIsAway(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	b.withProvider(t, func(p *configv1.IdentityProvider) { p.Issuer = "http://127.0.0.1:1" })
	p := b.browser(t).get("/sign-in/with/corp")
	require.Equal(t, 502, p.status)
	require.Contains(t, text(p.body), "cannot be used now")
	require.Equal(t, 200, b.browser(t).get("/sign-in").status)
	require.Equal(t, 200, owner.get("/account").status)
}

func kind(plural string) configv1.Kind {
	k, _ := configv1.FindKind(plural)
	return k
}
