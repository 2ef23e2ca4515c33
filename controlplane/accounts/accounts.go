// Package accounts says who may set what of an account, in one table, what is left of an account that somebody else
// takes over, and what becomes of keys whose owner leaves. The admin API asks it at every write, and sign-in and SCIM
// before they write. It knows no store.
//
// If another authority takes an account over, nothing may stay that it has not given: whoever prepared the account
// may know its password. Start from [Finding.Rest], never from a copy of the account that is stored.
package accounts

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// An Authority is on whose behalf an account is written.
type Authority uint8

// Authorities.
const (
	Tenant    Authority = iota + 1 // people and tokens whose rights are within an organization or project
	Operator                       // people and tokens of the gateway
	Directory                      // the SCIM client of an IdentityProvider
	SignIn                         // an IdentityProvider, when somebody signs in
	Person                         // whoever is signed in, of their own account
)

// A Finding is the relation of a name's account to the person or directory who comes with the name.
type Finding uint8

// Findings.
const (
	Nobody   Finding = iota // there is no such account
	Theirs                  // the account is bound to the person
	Prepared                // operators have made it for whoever comes with its name from the issuer
	SignedIn                // it is bound to another person of the issuer, or the directory does not say to whom
	GivesWay                // people of a tenant have made it, or know its password
	Others                  // it is the operators', or of another issuer
)

// Find returns what somebody finds who comes with the name of a stored account, which may be nil. Of a directory the
// identity has no subject.
func Find(stored *configv1.Account, who *configv1.Identity) Finding {
	is := stored.GetIdentity()
	ofIssuer := is != nil && configv1.SameIssuer(is.GetIssuer(), who.GetIssuer())
	switch {
	case stored == nil:
		return Nobody
	case ofIssuer && is.GetSubject() != "" && is.GetSubject() == who.GetSubject():
		return Theirs
	case stored.GetBreakGlass():
		return Others
	case ofIssuer && is.GetSubject() == "":
		return Prepared
	case ofIssuer:
		return SignedIn
	case is == nil && stored.GetTenant() != "" && !Beyond(stored):
		return GivesWay
	}
	return Others
}

// Rest returns what is left of a stored account for whoever takes it over: never a password. An account that operators
// have prepared keeps its memberships. A disabled account stays disabled, unless people of a tenant have made it.
func (f Finding) Rest(stored *configv1.Account) *configv1.Account {
	rest := &configv1.Account{Name: stored.GetName()}
	switch f {
	case Prepared:
		rest.DisplayName, rest.Disabled, rest.Identity = stored.GetDisplayName(), stored.GetDisabled(), stored.GetIdentity()
		rest.Memberships, rest.Provisioning = stored.GetMemberships(), stored.GetProvisioning()
		if rest.Provisioning != nil { // its directory has taken it over before
			rest.Role, rest.ReadBodies = stored.GetRole(), stored.GetReadBodies()
		}
	case SignedIn:
		rest.Disabled = stored.GetDisabled()
	}
	return rest
}

// Released returns what is left of an account that its directory deletes, or nil. One that operators have disabled
// keeps out whoever comes with its name: deleting and making it again must not let the person in.
func Released(stored *configv1.Account) *configv1.Account {
	if !stored.GetDisabled() {
		return nil
	}
	rest := proto.CloneOf(stored)
	rest.Provisioning, rest.Role, rest.Memberships = nil, configv1.Role_ROLE_UNSPECIFIED, nil
	return rest
}

// NewHolder reports whether a change gives an account to somebody else. Was may be nil. An identity without a subject
// does not yet: the sign-in that sets the subject does.
func NewHolder(was, now *configv1.Account) bool {
	a, b := was.GetIdentity(), now.GetIdentity()
	return was == nil || a.GetSubject() != b.GetSubject() ||
		a != nil && b != nil && !configv1.SameIssuer(a.GetIssuer(), b.GetIssuer()) ||
		now.GetProvisioning() != nil && now.GetProvisioning().GetId() != was.GetProvisioning().GetId()
}

// Beyond reports whether an account has rights outside the tenant whose people may know its password.
func Beyond(a *configv1.Account) bool {
	organization, project, _ := strings.Cut(a.GetTenant(), "/")
	for _, m := range a.GetMemberships() {
		if m.GetOrganization() != organization || project != "" && m.GetProject() != project {
			return true
		}
	}
	return a.GetRole() != configv1.Role_ROLE_UNSPECIFIED || a.GetReadBodies() || a.GetBreakGlass()
}

// Lost says for the audit log what an account has lost to its new holder.
func Lost(was, now *configv1.Account, tokens []string) string {
	lost := []string{"all sessions"}
	if was.GetPasswordHash() != "" {
		lost = append(lost, "the password")
	}
	if was.GetRole() != configv1.Role_ROLE_UNSPECIFIED && was.GetRole() != now.GetRole() {
		lost = append(lost, "the role "+was.GetRole().String())
	}
	for _, m := range was.GetMemberships() {
		if !slices.ContainsFunc(now.GetMemberships(), func(n *configv1.Membership) bool { return proto.Equal(m, n) }) {
			lost = append(lost, strings.TrimSuffix(m.GetOrganization()+"/"+m.GetProject(), "/")+" "+m.GetRole().String())
		}
	}
	for _, t := range tokens {
		lost = append(lost, "the token "+t)
	}
	return "the account has a new holder, and lost: " + strings.Join(lost, ", ") + "\n"
}
