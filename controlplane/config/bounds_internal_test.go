package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// TestATenantMakesABoundedNumberOfObjects has an admin of a project make one more than the organization may have: that
// there are many projects, each with an admin, gives no more room.
func TestATenantMakesABoundedNumberOfObjects(t *testing.T) {
	for _, project := range []string{"", "p1"} {
		at := authz.Tenant{Organization: "acme", Project: project}
		for kind, c := range map[string]struct {
			most int
			make func(n int) configv1.Object
		}{
			"key": {maxTenantKeys, func(n int) configv1.Object {
				return &configv1.Key{Name: fmt.Sprint("key_", n), Organization: "acme", Project: fmt.Sprint("p", n%7)}
			}},
			"account": {maxTenantAccounts, func(n int) configv1.Object {
				return &configv1.Account{Name: fmt.Sprint("a", n), Memberships: []*configv1.Membership{
					{Organization: "acme", Project: fmt.Sprint("p", n%7), Role: configv1.Role_VIEWER}}}
			}},
			"project": {maxTenantProjects, func(n int) configv1.Object {
				return &configv1.Project{Name: fmt.Sprint("acme/p", n)}
			}},
		} {
			if kind == "project" && project != "" {
				continue // it is not theirs to make
			}
			p := &Plan{caller: authz.Principal{Tenant: at}, before: &configstore.Snapshot{}}
			keys := map[string]configv1.Object{}
			add := func(n int) configv1.Object {
				o := c.make(n)
				if keys[o.GetName()] = o; kind != "key" {
					p.before.Entries = append(p.before.Entries,
						configstore.Entry{Kind: configv1.KindOf(o), Name: o.GetName(), Object: o})
				}
				return o
			}
			may := p.permission()
			p.service = &Service{options: Options{Keys: func() (int64, map[string]configv1.Object) { return 1, keys }}}
			for n := range c.most - 1 {
				add(7 * n)
			}
			one := c.make(7*c.most + 1)
			require.NoError(t, may.mayTouch(configv1.KindOf(one), one.GetName(), one, nil), kind)
			add(7 * c.most)
			require.ErrorContains(t, may.mayTouch(configv1.KindOf(one), one.GetName(), one, nil), "as many "+kind+"s", kind)
			require.NoError(t, may.mayTouch(configv1.KindOf(one), one.GetName(), one, one), "a change of one that is there")
		}
	}
}

// TestATenantMakesABoundedNumberOfObjectsInOneChange: what a change makes counts before it is stored.
func TestATenantMakesABoundedNumberOfObjectsInOneChange(t *testing.T) {
	may := tenantsPlan(authz.Principal{Tenant: authz.Tenant{Organization: "acme"}})
	project := func(n int) error {
		o := &configv1.Project{Name: fmt.Sprint("acme/p", n)}
		return may.mayTouch(configv1.KindOf(o), o.GetName(), o, nil)
	}
	for n := range maxTenantProjects {
		require.NoError(t, project(n))
	}
	require.ErrorContains(t, project(maxTenantProjects), "as many projects")

	member := tenantsPlan(authz.Principal{Name: "ann", OwnKeys: true, Tenant: authz.Tenant{Organization: "acme"}})
	key := func(n int) error {
		o := &configv1.Key{Name: fmt.Sprint("key_", n), Organization: "acme", Owner: "ann"}
		return member.mayTouch(configv1.KindOf(o), o.GetName(), o, nil)
	}
	for n := range maxOwnKeys {
		require.NoError(t, key(n))
	}
	require.ErrorContains(t, key(maxOwnKeys), "as many keys")
}

// TestObjectsOfATenantHaveABoundedSize: 10,000 keys of the largest size were 2 GB, in etcd and in each process.
func TestObjectsOfATenantHaveABoundedSize(t *testing.T) {
	may := tenantsPlan(authz.Principal{Tenant: authz.Tenant{Organization: "acme"}})
	large := func(name string, models int) *configv1.Key {
		k := &configv1.Key{Name: name, Organization: "acme"}
		for n := range models {
			k.Models = append(k.Models, fmt.Sprintf("%0250d", n))
		}
		return k
	}
	put := func(k, stored *configv1.Key) error {
		if stored == nil {
			return may.mayTouch(configv1.KeyKind(), k.GetName(), k, nil)
		}
		return may.mayTouch(configv1.KeyKind(), k.GetName(), k, stored)
	}
	n := 0
	for ; put(large(fmt.Sprint("key_", n), 256), nil) == nil; n++ {
		require.Less(t, n, 1000)
	}
	require.Greater(t, n, 400)
	require.ErrorContains(t, put(large("key_more", 256), nil), "larger than 32 MiB together")
	require.ErrorContains(t, put(large("key_0", 256), large("key_0", 1)), "larger than 32 MiB together", "one that grows")
	require.NoError(t, put(large("key_0", 1), large("key_0", 256)), "one that shrinks")
}

func tenantsPlan(who authz.Principal) permission {
	none := func() (int64, map[string]configv1.Object) { return 1, nil }
	p := &Plan{caller: who, before: &configstore.Snapshot{}, service: &Service{options: Options{Keys: none}}}
	return p.permission()
}
