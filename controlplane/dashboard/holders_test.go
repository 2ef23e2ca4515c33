package dashboard_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func inAcme(name string) *configv1.Account {
	return &configv1.Account{Name: name, Password: goodPassword,
		Memberships: []*configv1.Membership{{Organization: "acme", Role: configv1.Role_ADMIN}}}
}

// tenantAdmin returns a browser in which an admin of the organization acme is signed in.
func (b *bench) tenantAdmin(t *testing.T) *browser {
	t.Helper()
	b.put(t, &configv1.Organization{Name: "acme"})
	b.put(t, inAcme("tadmin"))
	w := b.browser(t)
	require.Equal(t, 303, w.signIn("TADMIN", goodPassword).status, "as in the name of the account, case does not count")
	return w
}

func TestASignInTakesOverWhatATenantHasMade(t *testing.T) {
	b := newBench(t)
	tadmin := b.tenantAdmin(t)
	i := b.withProvider(t, nil)
	for _, disabled := range []string{"", "on"} {
		name := "chief" + disabled + "@example.com"
		tadmin.get("/new/account")
		p := tadmin.post("/accounts", "name", name, "password", goodPassword, "memberships", "acme ADMIN",
			"disabled", disabled, "identity", i.URL, "role", "OWNER")
		require.NotEqual(t, 303, p.status, "a form with a role")
		tadmin.get("/new/account")
		require.Equal(t, 303, tadmin.post("/accounts", "name", name, "password", goodPassword, "memberships", "acme ADMIN",
			"disabled", disabled).status)
		squatter := b.browser(t)
		if disabled == "" {
			require.Equal(t, 303, squatter.signIn(name, goodPassword).status)
			squatter.get("/account")
			require.Equal(t, 303, squatter.post("/account", "current", goodPassword, "password", "their own password").status)
			require.Equal(t, "acme", b.account(t, name).GetTenant(), "that makes it nobody else's")
		}
		i.AddWith("chief"+disabled, name, "admins")
		w := b.browser(t)
		p = w.signInAt(i, "chief"+disabled, "/")
		require.Equal(t, 303, p.status, text(p.body))
		require.Equal(t, 200, w.get("/accounts").status)
		a := b.account(t, name)
		require.Equal(t, configv1.Role_OWNER, a.GetRole())
		require.Empty(t, a.GetPasswordHash())
		require.Empty(t, a.GetMemberships())
		require.Empty(t, a.GetTenant())
		require.Equal(t, 303, squatter.get("/account").status, "the session has ended")
		for _, known := range []string{goodPassword, "their own password"} {
			require.Equal(t, 401, b.browser(t).signIn(name, known).status)
		}
		tadmin.get("/new/account")
		require.NotEqual(t, 303, tadmin.post("/accounts", "name", name, "password", goodPassword,
			"memberships", "acme ADMIN").status)
	}
}

func TestAPreparedAccountLosesItsPassword(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	b.put(t, &configv1.Organization{Name: "acme"})
	prepared := inAcme("grace@example.com")
	prepared.Identity, prepared.ReadBodies = &configv1.Identity{Issuer: i.URL + "/"}, true
	b.put(t, prepared)
	w := b.browser(t)
	require.Equal(t, 303, w.signIn("grace@example.com", goodPassword).status)
	i.Add("grace", "admins")
	p := b.browser(t).signInAt(i, "grace", "/")
	require.Equal(t, 303, p.status, text(p.body))
	a := b.account(t, "grace@example.com")
	require.Len(t, a.GetMemberships(), 1, "operators have given it, and the issuer differs by a slash only")
	require.Empty(t, a.GetPasswordHash())
	require.False(t, a.GetReadBodies())
	require.Equal(t, 303, w.get("/account").status)

	glass := &configv1.Account{Name: "glass@example.com", Role: configv1.Role_OWNER, Password: goodPassword,
		BreakGlass: true, Identity: &configv1.Identity{Issuer: i.URL}}
	b.put(t, glass)
	i.Add("glass", "staff")
	require.Equal(t, 403, b.browser(t).signInAt(i, "glass", "/").status, "an emergency account is not taken over")
	require.Equal(t, 303, b.browser(t).signIn("glass@example.com", goodPassword).status)
}

// A lesser provider of the same issuer, such as one whose claim of the name people choose, binds no account that
// another provisions.
func TestAProvisionedAccountIsBoundByItsOwnProvider(t *testing.T) {
	b := newBench(t)
	corp := b.withProvider(t, nil)
	b.put(t, &configv1.IdentityGroup{Name: "grp_1", DisplayName: "admins", Provider: "other"})
	b.put(t, &configv1.IdentityProvider{Name: "other", Issuer: corp.URL, ClientId: "x",
		Roles: []*configv1.GroupRole{{Group: "admins", Role: configv1.Role_OWNER}}})
	b.put(t, &configv1.Account{Name: "grace@example.com", Role: configv1.Role_OWNER,
		Identity: &configv1.Identity{Issuer: corp.URL}, Provisioning: &configv1.Provisioning{Provider: "other", Id: "usr_1",
			UserName: "grace@example.com", Groups: []string{"grp_1"}}})
	corp.Add("grace", "staff")
	p := b.browser(t).signInAt(corp, "grace", "/")
	require.Equal(t, 403, p.status)
	require.Contains(t, text(p.body), "provisioned by another identity provider")
	require.Empty(t, b.account(t, "grace@example.com").GetIdentity().GetSubject())
}

func TestSessionsDoNotComeBackWithAnAccountOfTheSameName(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	i.Add("grace", "staff")
	old, again := b.browser(t), b.browser(t)
	require.Equal(t, 303, old.signInAt(i, "grace", "/").status)
	require.NoError(t, b.api.Delete(t.Context(), kind("accounts"), "grace@example.com"))
	require.Equal(t, 303, again.signInAt(i, "grace", "/").status)
	require.Equal(t, 200, again.get("/account").status)
	require.Equal(t, 303, old.get("/account").status, "it was of the account that was deleted")
}

// Several people whom an issuer calls by one name sign in at once, and only one of them gets the account.
func TestOfManyWhoSignInUnderOneNameOneGetsIt(t *testing.T) {
	b := newBench(t)
	i := b.withProvider(t, nil)
	var browsers []*browser
	var backs []string
	for n := range 6 {
		name := fmt.Sprintf("p%d", n)
		i.AddWith(name, "same@example.com", "staff")
		w := b.browser(t)
		browsers = append(browsers, w)
		backs = append(backs, i.Consent(t, w.get("/sign-in/with/corp").location, name).RequestURI())
	}
	var in sync.Map
	var all sync.WaitGroup
	for n := range browsers {
		all.Go(func() {
			if p := browsers[n].get(backs[n]); p.status == 303 {
				in.Store(n, true)
			} else {
				assert.Contains(t, []int{403, 409}, p.status, text(p.body))
			}
		})
	}
	all.Wait()
	var winners []any
	in.Range(func(n, _ any) bool { winners = append(winners, n); return true })
	require.Len(t, winners, 1)
	require.Equal(t, fmt.Sprintf("id-of-p%d", winners[0]), b.account(t, "same@example.com").GetIdentity().GetSubject())
}

// People with several memberships change their password, whichever they act under, and nothing else.
func TestPeopleChangeTheirOwnPassword(t *testing.T) {
	b := newBench(t)
	b.tenantAdmin(t)
	b.put(t, &configv1.Organization{Name: "beta"})
	two := inAcme("two")
	two.Memberships = append(two.Memberships, &configv1.Membership{Organization: "beta", Role: configv1.Role_VIEWER})
	b.put(t, two)
	w := b.browser(t)
	require.Equal(t, 303, w.signIn("two", goodPassword).status)
	w.get("/account")
	p := w.post("/account", "current", goodPassword, "password", "another good password")
	require.Equal(t, 303, p.status, text(p.body))
	require.Equal(t, 303, b.browser(t).signIn("two", "another good password").status)
	require.Len(t, b.account(t, "two").GetMemberships(), 2)
}
