package accounts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/internal/golden"
)

const issuer = "https://idp.example"

func authorities() []accounts.Authority {
	return []accounts.Authority{accounts.Tenant, accounts.Operator, accounts.Directory, accounts.SignIn, accounts.Person}
}

func says(r accounts.Row) []accounts.Say {
	return []accounts.Say{r.Tenant, r.Operator, r.Directory, r.SignIn, r.Person}
}

// changes has a change of each field.
func changes() map[string]func(*configv1.Account) {
	return map[string]func(*configv1.Account){
		"name":         func(a *configv1.Account) { a.Name = "other" },
		"display_name": func(a *configv1.Account) { a.DisplayName = "Other" },
		"role":         func(a *configv1.Account) { a.Role = configv1.Role_OWNER },
		"memberships": func(a *configv1.Account) {
			a.Memberships = append(a.Memberships, &configv1.Membership{Organization: "o", Role: configv1.Role_ADMIN})
		},
		"password":    func(a *configv1.Account) { a.PasswordHash = "another" },
		"disabled":    func(a *configv1.Account) { a.Disabled = true },
		"read_bodies": func(a *configv1.Account) { a.ReadBodies = true },
		"break_glass": func(a *configv1.Account) { a.BreakGlass = true },
		"identity": func(a *configv1.Account) {
			a.Identity = &configv1.Identity{Issuer: issuer, Subject: a.GetIdentity().GetSubject() + "7"}
		},
		"provisioning": func(a *configv1.Account) {
			a.Provisioning = &configv1.Provisioning{Provider: "corp", Id: "usr_" + a.GetProvisioning().GetId()}
		},
		"tenant":     func(a *configv1.Account) { a.Tenant = "acme" },
		"created_at": func(a *configv1.Account) { a.CreatedAt = timestamppb.Now() },
	}
}

// TestTheTableDecides tries to have each authority change each field of an account: of one without an identity, and of
// one with it.
func TestTheTableDecides(t *testing.T) {
	local := &configv1.Account{Name: "ann", PasswordHash: "hash"}
	bound := &configv1.Account{Name: "ann", PasswordHash: "hash",
		Identity: &configv1.Identity{Issuer: issuer, Subject: "1"}}
	for _, row := range accounts.Table() {
		change := changes()[row.Field]
		require.NotNil(t, change, row.Field)
		for i, by := range authorities() {
			for _, was := range []*configv1.Account{local, bound} {
				for _, everything := range []bool{false, true} {
					now := proto.CloneOf(was)
					change(now)
					say, identified := says(row)[i], was == bound || row.Field == "identity"
					want := map[accounts.Say]bool{accounts.Yes: true, accounts.Within: true, accounts.Rights: true,
						accounts.Groups: true, accounts.Own: true, accounts.Present: true, accounts.Gateway: true,
						accounts.Local: !identified, accounts.All: !identified || everything}[say]
					if was == local && (by == accounts.Directory || by == accounts.SignIn) {
						want = false // the account is not theirs to take
					}
					if was == bound && by == accounts.SignIn && row.Field == "identity" {
						want = false // another person
					}
					if row.Field == "identity" && say == accounts.Own && was == local {
						want = false
					}
					field, why := accounts.Write{By: by, Everything: everything, Was: was, Now: now}.Refused()
					require.Equal(t, want, why == "", "%s by %d of %v: %s %s", row.Field, by, was, field, why)
				}
			}
		}
	}
}

func TestEveryFieldOfAnAccountHasARow(t *testing.T) {
	rows := map[string]bool{"password_hash": true} // that of the password
	for _, r := range accounts.Table() {
		rows[r.Field] = true
	}
	fields := (&configv1.Account{}).ProtoReflect().Descriptor().Fields()
	require.Equal(t, fields.Len(), len(rows), "a row is of no field, or is missing")
	for i := range fields.Len() {
		require.True(t, rows[string(fields.Get(i).Name())], "%s: who may set it?", fields.Get(i).Name())
	}
}

func TestTheDocumentHasTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(aboutAccounts)
	for _, r := range accounts.Table() {
		fmt.Fprintf(&b, "| `%s` |", r.Field)
		for _, s := range says(r) {
			fmt.Fprintf(&b, " %s |", s)
		}
		fmt.Fprintf(&b, " %s |\n", r.Taken)
	}
	b.WriteString(besideFields)
	golden.Bytes(t, "../../docs/accounts.md", []byte(b.String()))
}

// TestNamesAreFoldedInOnePlace fails for a second way in which a package compares the names of people and groups.
func TestNamesAreFoldedInOnePlace(t *testing.T) {
	fold := regexp.MustCompile(`strings\.(EqualFold|ToLower|ToUpper|Title)\(|cases\.`)
	var files []string
	for _, pattern := range []string{"../accounts/*.go", "../identity/*.go", "../scim/*.go", "../dashboard/identity.go",
		"../dashboard/signin.go", "../dashboard/sections/accounts/accounts.go", "../api/provisioning.go",
		"../config/provisioning.go", "../config/tenants.go", "../authz/tenant.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if !strings.HasSuffix(name, "_test.go") {
			require.Empty(t, fold.FindAllString(string(text), -1), "%s: use configv1.Fold or configv1.AccountName", name)
		}
	}
}

func TestWhatSomebodyFindsUnderAName(t *testing.T) {
	person := &configv1.Identity{Issuer: issuer, Subject: "1"}
	directory := &configv1.Identity{Issuer: issuer}
	of := func(id *configv1.Identity, more func(*configv1.Account)) *configv1.Account {
		a := &configv1.Account{Name: "ann", Identity: id, PasswordHash: "h", Disabled: true, ReadBodies: true,
			DisplayName: "Ann", CreatedAt: timestamppb.Now(),
			Memberships: []*configv1.Membership{{Organization: "acme", Role: configv1.Role_ADMIN}}}
		if more != nil {
			more(a)
		}
		return a
	}
	plain := func(a *configv1.Account) { a.ReadBodies, a.Tenant = false, "acme" }
	noBodies := func(a *configv1.Account) { a.ReadBodies = false }
	viewer := func(a *configv1.Account) { plain(a); a.Role = configv1.Role_VIEWER }
	glass := func(a *configv1.Account) { a.BreakGlass = true }
	another := func(issuer, subject string) *configv1.Account {
		return of(&configv1.Identity{Issuer: issuer, Subject: subject}, nil)
	}
	type found struct {
		person, toSCIM  accounts.Finding
		keeps, disabled bool // of what operators gave
	}
	bound := found{accounts.SignedIn, accounts.SignedIn, false, true}
	others := found{accounts.Others, accounts.Others, false, false}
	for name, c := range map[string]struct {
		stored *configv1.Account
		found
	}{
		"nothing":           {nil, found{accounts.Nobody, accounts.Nobody, false, false}},
		"their own":         {of(person, nil), found{accounts.Theirs, accounts.SignedIn, false, true}},
		"a slash":           {another(issuer+"/", "1"), found{accounts.Theirs, accounts.SignedIn, false, true}},
		"prepared":          {of(directory, nil), found{accounts.Prepared, accounts.Prepared, true, true}},
		"another person":    {another(issuer, "2"), bound},
		"a subject's case":  {another(issuer, "A"), bound},
		"another issuer":    {another(issuer+"/x", ""), others},
		"a tenant's":        {of(nil, plain), found{accounts.GivesWay, accounts.GivesWay, false, false}},
		"operators'":        {of(nil, nil), others},
		"with a membership": {of(nil, noBodies), others},
		"outside":           {of(nil, viewer), others},
		"emergency":         {of(directory, glass), others},
	} {
		require.Equal(t, c.person, accounts.Find(c.stored, person), name)
		found := accounts.Find(c.stored, directory)
		require.Equal(t, c.toSCIM, found, name)
		rest := found.Rest(c.stored)
		require.Equal(t, c.disabled, rest.GetDisabled(), name)
		require.Equal(t, c.keeps, len(rest.GetMemberships()) > 0, name)
		require.Empty(t, rest.GetPasswordHash(), name)
		require.Nil(t, rest.GetCreatedAt(), name)
		require.False(t, rest.GetReadBodies(), name)
		require.Empty(t, rest.GetTenant(), name)
		require.Zero(t, rest.GetRole(), name)
		require.Empty(t, rest.GetIdentity().GetSubject(), name)
	}
}

func TestAnAccountHasANewHolder(t *testing.T) {
	id := func(issuer, subject string) *configv1.Account {
		return &configv1.Account{Identity: &configv1.Identity{Issuer: issuer, Subject: subject}}
	}
	scim := func(id string) *configv1.Account {
		return &configv1.Account{Provisioning: &configv1.Provisioning{Id: id}}
	}
	for name, c := range map[string]struct {
		was, now *configv1.Account
		want     bool
	}{
		"new":               {nil, &configv1.Account{}, true},
		"the same":          {id(issuer, "1"), id(issuer, "1"), false},
		"a slash":           {id(issuer, "1"), id(issuer+"/", "1"), false},
		"bound":             {id(issuer, ""), id(issuer, "1"), true},
		"another":           {id(issuer, "1"), id(issuer, "2"), true},
		"unbound":           {id(issuer, "1"), &configv1.Account{}, true},
		"prepared":          {&configv1.Account{}, id(issuer, ""), false},
		"another issuer":    {id(issuer, ""), id("https://new.example", ""), true},
		"provisioned":       {&configv1.Account{}, scim("a"), true},
		"provisioned anew":  {scim("a"), scim("b"), true},
		"still provisioned": {scim("a"), scim("a"), false},
		"not any more":      {scim("a"), &configv1.Account{}, false},
	} {
		require.Equal(t, c.want, accounts.NewHolder(c.was, c.now), name)
	}
}

func TestRightsOutsideATenant(t *testing.T) {
	member := func(tenant, organization, project string) *configv1.Account {
		return &configv1.Account{Tenant: tenant,
			Memberships: []*configv1.Membership{{Organization: organization, Project: project}}}
	}
	require.False(t, accounts.Beyond(member("acme", "acme", "")))
	require.False(t, accounts.Beyond(member("acme", "acme", "web")))
	require.False(t, accounts.Beyond(member("acme/web", "acme", "web")))
	require.True(t, accounts.Beyond(member("acme/web", "acme", "")), "the organization's people do not share a password")
	require.True(t, accounts.Beyond(member("acme/web", "acme", "app")))
	require.True(t, accounts.Beyond(member("acme", "beta", "")))
	require.True(t, accounts.Beyond(&configv1.Account{Tenant: "acme", BreakGlass: true}))
}
