package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
)

// someone returns an account of a person of the issuer, who is a MEMBER of acme.
func someone(change func(*configv1.Account)) *configv1.Account {
	a := &configv1.Account{Name: "ann", Identity: &configv1.Identity{Issuer: issuer, Subject: "1"},
		Memberships: []*configv1.Membership{{Organization: "acme", Role: configv1.Role_MEMBER}}}
	if change != nil {
		change(a)
	}
	return a
}

func TestWhatBecomesOfAKey(t *testing.T) {
	for name, c := range map[string]struct {
		now      *configv1.Account
		disabled bool
		owner    string
	}{
		"nothing changes": {someone(nil), false, "ann"},
		"deleted":         {nil, true, ""},
		"disabled":        {someone(func(a *configv1.Account) { a.Disabled = true }), true, "ann"},
		"inactive": {someone(func(a *configv1.Account) {
			a.Provisioning = &configv1.Provisioning{Inactive: true}
		}), true, "ann"},
		"a viewer": {someone(func(a *configv1.Account) { a.Memberships[0].Role = configv1.Role_VIEWER }), true, "ann"},
		"an auditor": {someone(func(a *configv1.Account) {
			a.Memberships, a.Role = nil, configv1.Role_AUDITOR
		}), true, "ann"},
		"an operator": {someone(func(a *configv1.Account) {
			a.Memberships, a.Role = nil, configv1.Role_OPERATOR
		}), false, "ann"},
		"elsewhere":            {someone(func(a *configv1.Account) { a.Memberships[0].Organization = "beta" }), true, "ann"},
		"of the project":       {someone(func(a *configv1.Account) { a.Memberships[0].Project = "web" }), false, "ann"},
		"of another project":   {someone(func(a *configv1.Account) { a.Memberships[0].Project = "app" }), true, "ann"},
		"renamed":              {someone(func(a *configv1.Account) { a.Name = "eve" }), false, "eve"},
		"somebody else":        {someone(func(a *configv1.Account) { a.Identity.Subject = "2" }), true, ""},
		"of another issuer":    {someone(func(a *configv1.Account) { a.Identity.Issuer = "https://x.example" }), true, ""},
		"of no issuer":         {someone(func(a *configv1.Account) { a.Identity = nil }), true, ""},
		"taken by a directory": {someone(func(a *configv1.Account) { a.Identity.Subject = "" }), false, "ann"},
	} {
		k := &configv1.Key{Name: "key_a", Organization: "acme", Project: "web", Owner: "ann"}
		m := accounts.Move{Was: someone(nil), Now: c.now}
		now := m.Key(k, nil, nil, time.Now())
		if now == nil {
			now = k
		} else {
			require.True(t, m.Concerns(), name)
		}
		require.Equal(t, c.disabled, now.GetDisabled(), name)
		require.Equal(t, c.owner, now.GetOwner(), name)
		require.Equal(t, c.disabled, now.GetLeft() != nil, name)
	}
}

func TestOneMoreDepartureChangesNoKey(t *testing.T) {
	keep := &configv1.Organization{KeysOfLeavers: configv1.KeysOfLeavers_KEEP}
	was, gone := someone(nil), someone(func(a *configv1.Account) { a.Disabled = true })
	k := &configv1.Key{Name: "key_a", Organization: "acme", Owner: "ann"}
	kept := accounts.Move{Was: was, Now: gone}.Key(k, keep, nil, time.Now())
	require.False(t, kept.GetDisabled())
	require.Nil(t, accounts.Move{Was: gone, Now: gone}.Key(kept, nil, nil, time.Now()))
	back := accounts.Move{Was: gone, Now: was}.Key(kept, nil, nil, time.Now())
	require.True(t, proto.Equal(k, back), "%v", back)
	handed := accounts.Move{Was: was}.Key(k, nil, someone(func(a *configv1.Account) { a.Name = "ann" }), time.Now())
	require.True(t, handed.GetDisabled(), "nobody succeeds themselves")
}
