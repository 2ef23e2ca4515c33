package accounts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
)

// TestWhoTakesAnAccountOverLiftsNothing writes accounts as if nothing had stayed of them: they gave way when they were
// read, and were provisioned, or prepared and disabled, before the write.
func TestWhoTakesAnAccountOverLiftsNothing(t *testing.T) {
	now := &configv1.Account{Name: "ann", Identity: &configv1.Identity{Issuer: issuer, Subject: "1"}}
	provisioned := &configv1.Account{Name: "ann", Identity: &configv1.Identity{Issuer: issuer},
		Provisioning: &configv1.Provisioning{Provider: "corp", Id: "usr_1", Inactive: true}}
	disabled := &configv1.Account{Name: "ann", Identity: &configv1.Identity{Issuer: issuer}, Disabled: true}
	gives := &configv1.Account{Name: "ann", Tenant: "acme", PasswordHash: "h", Disabled: true,
		Memberships: []*configv1.Membership{{Organization: "acme", Role: configv1.Role_ADMIN}}}
	for field, was := range map[string]*configv1.Account{"provisioning": provisioned, "disabled": disabled, "": gives} {
		got, _ := accounts.Write{By: accounts.SignIn, Was: was, Now: now}.Refused()
		require.Equal(t, field, got)
	}
	directory := &configv1.Account{Name: "ann", Identity: &configv1.Identity{Issuer: issuer},
		Provisioning: &configv1.Provisioning{Provider: "corp", Id: "usr_2"}}
	signedIn := &configv1.Account{Name: "ann", Identity: &configv1.Identity{Issuer: issuer, Subject: "1"}, Disabled: true}
	got, _ := accounts.Write{By: accounts.Directory, Was: signedIn, Now: directory}.Refused()
	require.Equal(t, "disabled", got)
}
