package authz

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/internal/turns"
)

func as(ctx context.Context, organization, project string) context.Context {
	return WithPrincipal(ctx, Principal{Tenant: Tenant{organization, project}})
}

// TestOperatorsWaitBehindOneWriteOfATenant has people of an organization and its projects ask for as many writes as
// may wait, and then an operator and another organization for one.
func TestOperatorsWaitBehindOneWriteOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		all := turns.New(1, most)
		leave, err := TakeTurn(as(t.Context(), "acme", ""), all, "changes wait")
		require.NoError(t, err)
		var order []string
		ask := func(ctx context.Context, who string) {
			leave, err := TakeTurn(ctx, all, "changes wait")
			require.NoError(t, err)
			order = append(order, who) // only who has the turn does so
			leave()
		}
		for n := range most {
			go ask(as(t.Context(), "acme", []string{"", "web", "app"}[n%3]), "acme")
			synctest.Wait()
		}
		_, err = TakeTurn(as(t.Context(), "acme", ""), all, "changes wait")
		var many *openai.Error
		require.ErrorAs(t, err, &many)
		require.Equal(t, 429, many.Status)
		go ask(as(t.Context(), "", ""), "operator")
		synctest.Wait()
		go ask(as(t.Context(), "beta", ""), "beta")
		synctest.Wait()
		leave()
		synctest.Wait()
		require.Equal(t, []string{"acme", "operator", "beta"}, order[:3])
		require.Len(t, order, most+2)
	})
}

// TestTenantsDoNotTakeAllExports: whoever reads slowly has one open for long.
func TestTenantsDoNotTakeAllExports(t *testing.T) {
	all := turns.NewPlaces(32)
	for _, tenant := range []string{"acme", "beta", "gamma"} {
		var err error
		taken := 0
		for ; err == nil; taken++ {
			_, err = TakePlace(as(t.Context(), tenant, ""), all, "exports are running")
		}
		require.ErrorContains(t, err, "Too many exports are running")
		require.Greater(t, taken, 1, tenant)
	}
	leave, err := TakePlace(as(t.Context(), "", ""), all, "exports are running")
	require.NoError(t, err)
	leave()
}

func TestWhoTakesTurnsWithWhom(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range []Principal{{}, {Tenant: Tenant{"acme", ""}}, {Tenant: Tenant{"beta", "web"}}, {Provider: "corp"},
		{Provider: "other"}, {As: accounts.SignIn}} {
		require.False(t, seen[p.Queue()], p.Queue())
		seen[p.Queue()] = true
	}
	require.Equal(t, Principal{Tenant: Tenant{"acme", ""}}.Queue(), Principal{Tenant: Tenant{"acme", "web"}}.Queue())
}
