package identity

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
)

// maxDisplay bounds a full name, in bytes.
const maxDisplay = 128

// A Person is somebody whom a provider has signed in.
type Person struct {
	Provider    *configv1.IdentityProvider
	Name        string // of the account
	DisplayName string
	Role        configv1.Role // that the claims give; unspecified if they give none
	Identity    *configv1.Identity
	Memberships []*configv1.Membership // that the person's groups give
	IDToken     string
}

// personOf returns whom claims are about.
func personOf(p *configv1.IdentityProvider, got said) (*Person, error) {
	written, err := got.all.Text(p.NameFrom())
	if err != nil {
		return nil, forbidden("%s says of you what this gateway cannot read: %v.", p.GetName(), err)
	}
	if p.NameFrom() == "email" && !isTrue(got.all["email_verified"]) {
		return nil, forbidden("%s has not verified your e-mail address, so it cannot be the name of your account here. "+
			"An owner can choose another claim in name_claim.", p.GetName())
	}
	if written == "" {
		return nil, forbidden("%s does not say the claim %s of you, which is the name of your account here.", p.GetName(),
			p.NameFrom())
	}
	name, err := configv1.AccountName(written)
	if err != nil {
		return nil, forbidden("%s says %.200s in the claim %s of you, which cannot be the name of your account here: it %v.",
			p.GetName(), strconv.QuoteToASCII(written), p.NameFrom(), err)
	}
	display, err := got.all.Text("name")
	if err != nil || len(display) > maxDisplay || strings.ContainsFunc(display, unicode.IsControl) {
		display = "" // a name that cannot be shown keeps nobody out
	}
	groups, err := got.all.Texts(p.GroupsFrom())
	if err != nil {
		return nil, forbidden("%s says of you what this gateway cannot read: %v.", p.GetName(), err)
	}
	return &Person{Provider: p, Name: name, DisplayName: display,
		Role: p.RoleOf(groups), Memberships: p.MembershipsOf(groups), IDToken: got.token,
		Identity: &configv1.Identity{Issuer: p.GetIssuer(), Subject: got.subject}}, nil
}

// Without returns the stored account of a person to whom the provider gives no rights any more, as it is to be stored:
// without any. It is nil if the person has rights, or had none.
func (p *Person) Without(stored *configv1.Account) *configv1.Account {
	if accounts.Find(stored, p.Identity) != accounts.Theirs || stored.GetProvisioning() != nil ||
		p.Role != configv1.Role_ROLE_UNSPECIFIED || len(p.memberships(stored)) > 0 ||
		stored.GetRole() == configv1.Role_ROLE_UNSPECIFIED && len(stored.GetMemberships()) == 0 {
		return nil
	}
	account := proto.CloneOf(stored)
	account.Role, account.Memberships = configv1.Role_ROLE_UNSPECIFIED, nil
	return account
}

// Account returns the account of a person as it is to be stored: what the stored one, which may be nil, leaves them,
// with the person's role. The role of an account that is provisioned stays, and so do memberships, which are enough
// without a role. An account of somebody else who has the same name is not taken over, unless people of a tenant have
// made it.
func (p *Person) Account(stored *configv1.Account) (*configv1.Account, error) {
	found := accounts.Find(stored, p.Identity)
	account := proto.CloneOf(stored)
	if found != accounts.Theirs {
		account = found.Rest(stored)
	}
	provisioned := account.GetProvisioning() != nil
	switch {
	case found == accounts.Others || found == accounts.SignedIn:
		return nil, forbidden("The account %s is of somebody else: it was not made by this sign-in. An owner can delete it, "+
			"or set its identity.", p.Name)
	case found == accounts.Prepared && provisioned && account.GetProvisioning().GetProvider() != p.Provider.GetName():
		return nil, forbidden("The account %s is provisioned by another identity provider. Sign in with that one first.",
			p.Name)
	case !provisioned && p.Provider.GetProvisionedOnly():
		return nil, forbidden("%s has not provisioned an account for you here.", p.Provider.GetName())
	case !provisioned && p.Role == configv1.Role_ROLE_UNSPECIFIED && len(p.memberships(account)) == 0:
		return nil, forbidden("Your account at %s has no group that may use this gateway.", p.Provider.GetName())
	case account.GetDisabled():
		return nil, forbidden("Your account is disabled. An owner can change that.")
	case provisioned && account.Barred():
		return nil, forbidden("%s has deactivated your account here, or you are in no group that may use this gateway.",
			p.Provider.GetName())
	}
	account.Name, account.Identity = p.Name, p.Identity
	if provisioned {
		return account, nil
	}
	account.Role, account.Memberships = p.Role, p.memberships(account)
	if p.DisplayName != "" {
		account.DisplayName = p.DisplayName
	}
	return account, nil
}

// memberships returns the memberships of a person: those of their groups, if groups give any, or else the stored ones.
func (p *Person) memberships(stored *configv1.Account) []*configv1.Membership {
	if p.Provider.GivesMemberships() {
		return p.Memberships
	}
	return stored.GetMemberships()
}

// isTrue reports whether a claim is true. Some issuers write it as a text.
func isTrue(value any) bool { return value == true || value == "true" }

func forbidden(format string, args ...any) error {
	return &openai.Error{Status: http.StatusForbidden, Message: fmt.Sprintf(format, args...)}
}
