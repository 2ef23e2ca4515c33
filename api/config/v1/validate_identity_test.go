package configv1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestValidateIdentityProvider(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*configv1.IdentityProvider)
		says   string // empty: it is valid
	}{
		"one":          {func(*configv1.IdentityProvider) {}, ""},
		"on loopback":  {func(p *configv1.IdentityProvider) { p.Issuer = "http://127.0.0.1:5556/dex" }, ""},
		"by localhost": {func(p *configv1.IdentityProvider) { p.Issuer = "http://localhost:5556" }, ""},
		"in clear":     {func(p *configv1.IdentityProvider) { p.Issuer = "http://dex.example" }, "begins with https://"},
		"no URL":       {func(p *configv1.IdentityProvider) { p.Issuer = "dex" }, "issuer: must be a URL"},
		"a query":      {func(p *configv1.IdentityProvider) { p.Issuer += "?a=b" }, "issuer: must have no user, query or fragment"},
		"nobody": {func(p *configv1.IdentityProvider) { p.Roles = nil },
			"roles: needs a group, or a default_role: otherwise nobody can sign in"},
		"everybody": {func(p *configv1.IdentityProvider) { p.Roles, p.DefaultRole = nil, configv1.Role_VIEWER }, ""},
		"no role":   {func(p *configv1.IdentityProvider) { p.Roles[0].Role = 0 }, "roles[0].role: must be one of VIEWER"},
		"no group":  {func(p *configv1.IdentityProvider) { p.Roles[0].Group = "" }, "roles[0].group"},
		"no client": {func(p *configv1.IdentityProvider) { p.ClientId = "" }, "client_id"},
		"two scopes": {func(p *configv1.IdentityProvider) { p.Scopes = []string{"a b"} },
			"scopes[0]: must be a scope of OAuth"},
		"no certificate": {func(p *configv1.IdentityProvider) { p.Ca = "x" }, "ca: "},
		"a short session": {func(p *configv1.IdentityProvider) { p.Session = durationpb.New(time.Minute) },
			"session: must be between 300s and 604800s"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &configv1.IdentityProvider{Name: "a", Issuer: "https://login.example", ClientId: "c",
				Roles: []*configv1.GroupRole{{Group: "g", Role: configv1.Role_OWNER}}}
			c.change(p)
			err := configv1.Validate(p, nil).Err()
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestTheHighestRoleOfSomebodysGroups(t *testing.T) {
	p := &configv1.IdentityProvider{Roles: []*configv1.GroupRole{{Group: "a", Role: configv1.Role_OPERATOR},
		{Group: "b", Role: configv1.Role_VIEWER}}}
	require.Equal(t, configv1.Role_OPERATOR, p.RoleOf([]string{"b", "a"}))
	require.Equal(t, configv1.Role_VIEWER, p.RoleOf([]string{"b", "c"}))
	require.Equal(t, configv1.Role_ROLE_UNSPECIFIED, p.RoleOf([]string{"c"}))
	p.DefaultRole = configv1.Role_VIEWER
	require.Equal(t, configv1.Role_VIEWER, p.RoleOf(nil))
	p.Roles[1].Role = configv1.Role_AUDITOR
	require.Equal(t, configv1.Role_OPERATOR, p.RoleOf([]string{"a", "b"}), "the number of a role is not its rank")
	require.Equal(t, configv1.Role_AUDITOR, p.RoleOf([]string{"b"}))
}

func TestTheMembershipsOfSomebodysGroups(t *testing.T) {
	p := &configv1.IdentityProvider{Name: "p", Issuer: "https://i.example", ClientId: "c", Roles: []*configv1.GroupRole{
		{Group: "a", Organization: "acme", Role: configv1.Role_VIEWER},
		{Group: "b", Organization: "acme", Role: configv1.Role_ADMIN},
		{Group: "a", Organization: "acme", Project: "web", Role: configv1.Role_MEMBER},
		{Group: "c", Role: configv1.Role_OWNER}}}
	require.True(t, p.GivesMemberships())
	require.Empty(t, p.MembershipsOf([]string{"c", "d"}))
	require.Equal(t, configv1.Role_ROLE_UNSPECIFIED, p.RoleOf([]string{"a", "b"}))
	all := p.MembershipsOf([]string{"b", "a"})
	require.Len(t, all, 2)
	require.Equal(t, configv1.Role_ADMIN, all[0].GetRole(), "the highest")
	require.Equal(t, "web", all[1].GetProject())
	require.Empty(t, configv1.Validate(p, nil))
	for says, wrong := range map[string]*configv1.GroupRole{
		"VIEWER, MEMBER and ADMIN": {Group: "a", Organization: "acme", Role: configv1.Role_OWNER},
		"needs an organization":    {Group: "a", Project: "web", Role: configv1.Role_VIEWER},
		"VIEWER, AUDITOR":          {Group: "a", Role: configv1.Role_MEMBER},
	} {
		p.Roles = []*configv1.GroupRole{wrong}
		require.ErrorContains(t, configv1.Validate(p, nil), says)
	}
}
