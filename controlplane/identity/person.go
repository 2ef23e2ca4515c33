package identity

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// maxDisplay bounds a full name, in bytes.
const maxDisplay = 128

// A Person is somebody whom a provider has signed in.
type Person struct {
	Provider    *configv1.IdentityProvider
	Name        string // of the account
	DisplayName string
	Role        configv1.Role
	Identity    *configv1.Identity
	IDToken     string
}

// personOf returns whom claims are about.
func personOf(p *configv1.IdentityProvider, got said) (*Person, error) {
	name := got.all.Text(p.NameFrom())
	if p.NameFrom() == "email" && !isTrue(got.all["email_verified"]) {
		return nil, forbidden("%s has not verified your e-mail address, so it cannot be the name of your account here. "+
			"An owner can choose another claim in name_claim.", p.GetName())
	}
	if name == "" {
		return nil, forbidden("%s does not say the claim %s of you, which is the name of your account here.", p.GetName(),
			p.NameFrom())
	}
	display := got.all.Text("name")
	if len(display) > maxDisplay || strings.ContainsFunc(display, unicode.IsControl) {
		display = "" // a name that cannot be shown keeps nobody out
	}
	role := p.RoleOf(got.all.Texts(p.GroupsFrom()))
	if role == configv1.Role_ROLE_UNSPECIFIED {
		return nil, forbidden("Your account at %s has no group that may use this gateway.", p.GetName())
	}
	return &Person{Provider: p, Name: strings.ToLower(name), DisplayName: display, Role: role, IDToken: got.token,
		Identity: &configv1.Identity{Issuer: p.GetIssuer(), Subject: got.subject}}, nil
}

// Account returns the account of a person as it is to be stored: the stored one, which may be nil, with the person's
// role. An account of somebody else who has the same name is not taken over.
func (p *Person) Account(stored *configv1.Account) (*configv1.Account, error) {
	if stored == nil {
		return &configv1.Account{Name: p.Name, DisplayName: p.DisplayName, Role: p.Role, Identity: p.Identity}, nil
	}
	is := stored.GetIdentity()
	switch {
	case is.GetIssuer() != p.Identity.GetIssuer(), is.GetSubject() != "" && is.GetSubject() != p.Identity.GetSubject():
		return nil, forbidden("The account %s is of somebody else: it was not made by this sign-in. An owner can delete it, "+
			"or set its identity.", p.Name)
	case stored.GetDisabled():
		return nil, forbidden("Your account is disabled. An owner can change that.")
	}
	account := proto.CloneOf(stored)
	account.Role, account.Identity = p.Role, p.Identity
	if p.DisplayName != "" {
		account.DisplayName = p.DisplayName
	}
	return account, nil
}

// isTrue reports whether a claim is true. Some issuers write it as a text.
func isTrue(value any) bool { return value == true || value == "true" }

func forbidden(format string, args ...any) error {
	return &openai.Error{Status: http.StatusForbidden, Message: fmt.Sprintf(format, args...)}
}
