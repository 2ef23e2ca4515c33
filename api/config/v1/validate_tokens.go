package configv1

import (
	"cmp"
	"strings"
)

const maxBindings = 200

// UserFrom returns the claim that names the user.
func (t *TokenIssuer) UserFrom() string { return cmp.Or(t.GetUserClaim(), "sub") }

func (v *validator) tokenIssuer(t *TokenIssuer) {
	v.label("name", t.GetName())
	v.issuer("issuer", t.GetIssuer())
	if len(t.GetAudiences()) == 0 {
		v.fail("audiences", "needs at least one: otherwise tokens that are for other services would be good here")
	}
	v.list("audiences", t.GetAudiences(), v.required)
	if t.GetJwksUrl() != "" {
		v.issuer("jwks_url", t.GetJwksUrl())
	}
	if t.GetCa() != "" {
		v.pemCertificates("ca", t.GetCa())
	}
	v.text("user_claim", t.GetUserClaim())
	if len(t.GetPolicyClaims()) > maxPolicyClaims {
		v.fail("policy_claims", "must be at most %d", maxPolicyClaims)
	}
	v.list("policy_claims", t.GetPolicyClaims(), v.required)
	if n := len(t.GetBindings()); n == 0 || n > maxBindings {
		v.fail("bindings", "must be 1 to %d", maxBindings)
	}
	for i, b := range t.GetBindings() {
		at := element("bindings", i)
		v.id(at+".key", b.GetKey())
		for name, value := range b.GetClaims() {
			v.text(at+".claims", name)
			v.text(at+".claims."+name, value)
			if name == "" || strings.Trim(value, "*") == "" {
				v.fail(at+".claims", "needs a name and a value for each")
			}
		}
	}
}
