package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAddressIsVerifiedWhereItIsSaid has an issuer say of one address that it is verified, and another one beside.
func TestAnAddressIsVerifiedWhereItIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		token, info map[string]any
		want        string // empty: nobody
	}{
		"in the token": {map[string]any{}, map[string]any{"email": "b@corp.example"}, "ann@example.com"},
		"of another address": {map[string]any{"email_verified": nil},
			map[string]any{"email": "b@corp.example", "email_verified": true}, ""},
		"of the same address": {map[string]any{"email_verified": nil},
			map[string]any{"email": "Ann@example.com", "email_verified": true}, "ann@example.com"},
		"of no address":               {map[string]any{"email_verified": nil}, map[string]any{"email_verified": true}, ""},
		"in the token, of no address": {map[string]any{"email": nil}, map[string]any{"email": "b@corp.example"}, ""},
		"of an address that userinfo does not verify": {map[string]any{"email": nil},
			map[string]any{"email": "b@corp.example", "email_verified": false}, ""},
		"in userinfo": {map[string]any{"email": nil, "email_verified": nil},
			map[string]any{"email": "b@corp.example", "email_verified": true}, "b@corp.example"},
		"of a list": {map[string]any{"email": []any{"a"}, "email_verified": nil},
			map[string]any{"email": []any{"a"}, "email_verified": true}, ""},
	} {
		f := newForger(t)
		f.claims, f.info = c.token, c.info
		who, err := f.signIn(t, service(f.provider()), nil)
		if c.want == "" {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, who.Name, name)
	}
}
