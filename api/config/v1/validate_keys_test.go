package configv1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const argonHash = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b/dWRWJTmaaJObG"

func perMinute(n uint64) *configv1.Limit {
	return &configv1.Limit{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: n}
}

func TestValidateKey(t *testing.T) {
	retired := &configv1.RetiredKey{Hash: make([]byte, 32), ExpiresAt: timestamppb.Now()}
	many := map[string]string{}
	for i := range 17 {
		many[strings.Repeat("a", i+1)] = ""
	}
	for name, tc := range map[string]struct {
		key   *configv1.Key
		field string
	}{
		"as written":       {&configv1.Key{Name: "key_1", Models: []string{"openai/*"}}, ""},
		"as stored":        {&configv1.Key{Name: "key_1", Hash: make([]byte, 32), Hint: "abcd", Retired: retired}, ""},
		"odd id":           {&configv1.Key{Name: "a/b"}, "name"},
		"short hash":       {&configv1.Key{Name: "a", Hash: make([]byte, 31)}, "hash"},
		"long hint":        {&configv1.Key{Name: "a", Hint: "abcde"}, "hint"},
		"odd organization": {&configv1.Key{Name: "a", Organization: "a b"}, "organization"},
		"empty model":      {&configv1.Key{Name: "a", Models: []string{""}}, "models[0]"},
		"control":          {&configv1.Key{Name: "a", DisplayName: "a\x1b[2J"}, "display_name"},
		"endpoints":        {&configv1.Key{Name: "a", Endpoints: []string{"chat/completions", "audio/*", "*"}}, ""},
		"endpoint twice":   {&configv1.Key{Name: "a", Endpoints: []string{"files", "files"}}, "endpoints[1]"},
		"a whole path":     {&configv1.Key{Name: "a", Endpoints: []string{"/v1/files"}}, "endpoints[0]"},
		"with the version": {&configv1.Key{Name: "a", Endpoints: []string{"v1/files"}}, "endpoints[0]"},
		"a query":          {&configv1.Key{Name: "a", Endpoints: []string{"files?x"}}, "endpoints[0]"},
		"addresses": {&configv1.Key{Name: "a", Addresses: []string{"10.0.0.1", "10.0.0.0/8", "2001:db8::/32", "::1"}},
			""},
		"a host":        {&configv1.Key{Name: "a", Addresses: []string{"localhost"}}, "addresses[0]"},
		"a zone":        {&configv1.Key{Name: "a", Addresses: []string{"fe80::1%eth0"}}, "addresses[0]"},
		"bits too many": {&configv1.Key{Name: "a", Addresses: []string{"10.0.0.1/8"}}, "addresses[0]"},
		"IPv4 in IPv6":  {&configv1.Key{Name: "a", Addresses: []string{"::ffff:10.0.0.0/104"}}, "addresses[0]"},
		"metadata": {&configv1.Key{Name: "a",
			Metadata: map[string]string{strings.Repeat("ü", 64): strings.Repeat("ü", 512)}}, ""},
		"too much of it": {&configv1.Key{Name: "a", Metadata: many}, "metadata"},
		"a long name":    {&configv1.Key{Name: "a", Metadata: map[string]string{strings.Repeat("a", 65): ""}}, "metadata"},
		"no name":        {&configv1.Key{Name: "a", Metadata: map[string]string{"": ""}}, "metadata"},
		"a long value": {&configv1.Key{Name: "a", Metadata: map[string]string{"team": strings.Repeat("a", 513)}},
			"metadata.team"},
		"limits": {&configv1.Key{Name: "a", Limits: []*configv1.Limit{perMinute(1)}}, ""},
		"retired for ever": {&configv1.Key{Name: "a", Retired: &configv1.RetiredKey{Hash: make([]byte, 32)}},
			"retired.expires_at"},
		"retired nothing": {&configv1.Key{Name: "a", Retired: &configv1.RetiredKey{ExpiresAt: timestamppb.Now()}},
			"retired.hash"},
	} {
		t.Run(name, func(t *testing.T) { requireFields(t, configv1.Validate(tc.key, knownVendor), tc.field) })
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{"10.0.0.1": "10.0.0.1/32", "::ffff:10.0.0.1": "10.0.0.1/32",
		"10.0.0.0/8": "10.0.0.0/8", "::1": "::1/128"} {
		got, err := configv1.ParseAddress(text)
		require.NoError(t, err)
		require.Equal(t, want, got.String())
	}
	_, err := configv1.ParseAddress("10.1.0.0/8")
	require.EqualError(t, err, "has bits that its length leaves out; the range is 10.0.0.0/8")
}

func TestValidateOrganizationAndProject(t *testing.T) {
	for name, field := range map[string]string{"acme": "", "": "name", "a/b": "name", "a b": "name"} {
		requireFields(t, configv1.Validate(&configv1.Organization{Name: name}, knownVendor), field)
	}
	for name, field := range map[string]string{"acme/web": "", "acme": "name", "acme/": "name", "/web": "name",
		"a/b/c": "name", "": "name"} {
		requireFields(t, configv1.Validate(&configv1.Project{Name: name}, knownVendor), field)
	}
	broken := []*configv1.Limit{perMinute(0)}
	requireFields(t, configv1.Validate(&configv1.Organization{Name: "a", Limits: broken}, knownVendor),
		"limits[0].requests_per_unit")
	requireFields(t, configv1.Validate(&configv1.Project{Name: "a/b", Limits: broken}, knownVendor),
		"limits[0].requests_per_unit")
	free := []*configv1.Budget{{Unit: configv1.Unit_DAY}}
	requireFields(t, configv1.Validate(&configv1.Organization{Name: "a", Budgets: free}, knownVendor), "budgets[0].usd")
	requireFields(t, configv1.Validate(&configv1.Project{Name: "a/b", Budgets: free}, knownVendor), "budgets[0].usd")
}

func TestValidateAdmins(t *testing.T) {
	for name, tc := range map[string]struct {
		object configv1.Object
		field  string
	}{
		"a person": {&configv1.Account{Name: "ann.lee+x@example.com", Role: configv1.Role_VIEWER,
			Password: "twelve chars"}, ""},
		"eleven characters": {&configv1.Account{Name: "a", Role: configv1.Role_VIEWER, Password: "twelve char"},
			"password"},
		"a novel": {&configv1.Account{Name: "a", Role: configv1.Role_VIEWER, Password: strings.Repeat("a", 513)},
			"password"},
		"both": {&configv1.Account{Name: "a", Role: configv1.Role_OWNER, Password: "twelve chars",
			PasswordHash: argonHash}, "password"},
		"not a hash": {&configv1.Account{Name: "a", Role: configv1.Role_OWNER, PasswordHash: "secret"},
			"password_hash"},
		"no role":            {&configv1.Account{Name: "a"}, "role"},
		"a role of tomorrow": {&configv1.Account{Name: "a", Role: 40}, "role"},
		"upper case":         {&configv1.Account{Name: "Ann", Role: configv1.Role_OWNER}, "name"},
		"a path":             {&configv1.Account{Name: "a/b", Role: configv1.Role_OWNER}, "name"},
		"a token": {&configv1.AdminToken{Name: "adm_1", Scopes: []string{"config:read", "usage:read"},
			Hash: make([]byte, 32)}, ""},
		"no scope":      {&configv1.AdminToken{Name: "adm_1"}, "scopes"},
		"another scope": {&configv1.AdminToken{Name: "adm_1", Scopes: []string{"*", "config"}}, "scopes[1]"},
		"a scope twice": {&configv1.AdminToken{Name: "adm_1", Scopes: []string{"*", "*"}}, "scopes[1]"},
		"half a hash":   {&configv1.AdminToken{Name: "adm_1", Scopes: []string{"*"}, Hash: make([]byte, 16)}, "hash"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := configv1.Validate(tc.object, knownVendor)
			requireFields(t, errs, tc.field)
			require.NotContains(t, errs.Error(), "twelve")
		})
	}
}

func TestRedactShowsNoSecret(t *testing.T) {
	hash := []byte(strings.Repeat("H", 32))
	for _, o := range []configv1.Object{
		&configv1.Key{Name: "a", Hash: hash, Retired: &configv1.RetiredKey{Hash: hash, Hint: "abcd",
			ExpiresAt: timestamppb.Now()}},
		&configv1.AdminToken{Name: "a", Hash: hash},
		&configv1.Account{Name: "a", Password: "HHHHHHHHHHHH", PasswordHash: "HHHHHHHH"},
		&configv1.Provider{Name: "a", Credential: value("HHHHHHHH")},
		&configv1.Provider{Name: "a", Credential: sealed("HHHHHHHH")},
	} {
		before, err := configv1.Marshal(o)
		require.NoError(t, err)
		shown, err := configv1.Marshal(configv1.Redact(o))
		require.NoError(t, err)
		require.NotContains(t, string(shown), "SEhI", "%s", shown) // HHH in base64
		require.NotContains(t, string(shown), "HHHH", "%s", shown)
		after, err := configv1.Marshal(o)
		require.NoError(t, err)
		require.Equal(t, before, after, "it is a copy that is shown")
	}
	named := &configv1.Provider{Name: "a", Credential: &configv1.Credential{Source: &configv1.Credential_Vault{
		Vault: &configv1.VaultSecret{Path: "secret/data/a", Field: "key"}}}}
	require.True(t, proto.Equal(named, configv1.Redact(named)), "where a secret is may be shown")
	shown := configv1.Redact(&configv1.Key{Retired: &configv1.RetiredKey{Hash: hash, Hint: "abcd"}}).(*configv1.Key)
	require.Equal(t, "abcd", shown.GetRetired().GetHint())
}

func TestCheckHashes(t *testing.T) {
	hash := make([]byte, 32)
	require.NoError(t, (&configv1.Key{Hash: hash}).CheckHashes())
	require.NoError(t, (&configv1.Key{Hash: hash, Retired: &configv1.RetiredKey{Hash: hash}}).CheckHashes())
	require.ErrorContains(t, (&configv1.Key{}).CheckHashes(), "hash: has 0 bytes")
	require.ErrorContains(t, (&configv1.Key{Hash: hash, Retired: &configv1.RetiredKey{}}).CheckHashes(),
		"retired.hash: has 0 bytes")
}
