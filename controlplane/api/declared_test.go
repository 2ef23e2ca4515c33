package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
)

func declared(o configv1.Object, by string) owned.Declared {
	return owned.Declared{Kind: configv1.KindOf(o), Name: o.GetName(), Object: o,
		Owner: configstore.Owner{By: by}}
}

func asDeclarer(t *testing.T) context.Context {
	return authz.WithPrincipal(t.Context(), authz.Principal{Name: "kubernetes", Role: "owner",
		Scopes: authz.ScopesOf(configv1.Role_OWNER)})
}

func echo(name string) *configv1.Provider { return &configv1.Provider{Name: name, Vendor: "echo"} }

func codeOf(t *testing.T, err error) openai.Code {
	t.Helper()
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

// What is declared elsewhere is changed by nobody else, unless they say so.
func TestNobodyOverwritesWhatIsDeclaredElsewhere(t *testing.T) {
	b := newBench(t)
	b.config.Owners = configstore.NewOwnerIndex(b.store)
	changes, ctx := api.Changes(b.config), asDeclarer(t)
	const ours, theirs = "kubernetes:platform/mine", "kubernetes:platform/other"

	_, err := changes.Declare(ctx, []owned.Declared{declared(echo("mine"), ours)})
	require.NoError(t, err)
	_, err = changes.Declare(ctx, []owned.Declared{declared(echo("mine"), theirs)})
	require.ErrorContains(t, err, "is declared by "+ours)

	changed := echo("mine")
	changed.Disabled = true
	_, err = b.client.Put(ctx, changed, 0)
	require.Equal(t, openai.CodeDeclaredElsewhere, codeOf(t, err))
	require.Equal(t, openai.CodeDeclaredElsewhere,
		codeOf(t, b.client.Delete(ctx, configv1.KindOf(changed), "mine")))
	_, err = b.client.Apply(ctx, []configv1.Object{echo("mine"), echo("more")}, false) // which changes nothing of it
	require.NoError(t, err)

	_, err = b.client.TakingOver().Put(ctx, changed, 0)
	require.NoError(t, err)
	_, err = changes.Declare(ctx, []owned.Declared{declared(echo("mine"), ours)})
	require.ErrorContains(t, err, "belongs to the admin API or a file")
	again := declared(echo("mine"), ours)
	again.Take = true
	_, err = changes.Declare(ctx, []owned.Declared{again})
	require.NoError(t, err)
	owner, _, err := b.store.OwnerOf(ctx, configstore.Ref{Kind: "Provider", Name: "mine"})
	require.NoError(t, err)
	require.Equal(t, ours, owner.By)

	gone := declared(echo("mine"), ours)
	gone.Object = nil
	_, err = changes.Declare(ctx, []owned.Declared{gone})
	require.NoError(t, err)
	owners, _, err := b.store.OwnersOf(ctx)
	require.NoError(t, err)
	require.Empty(t, owners)
	require.Equal(t, http.StatusNotFound, b.do(t, "GET", "/admin/v1/providers/mine", "").status)
}

// Of many that are declared, the refused ones are named, each with its reason, and none is stored.
func TestWhoDeclaresLearnsWhatIsRefused(t *testing.T) {
	b := newBench(t)
	changes, ctx := api.Changes(b.config), asDeclarer(t)
	lost := &configv1.Model{Name: "lost", Targets: []*configv1.Target{{Provider: "nowhere", Model: "m"}}}
	_, err := changes.Declare(ctx, []owned.Declared{declared(echo("good"), "kubernetes:p/good"),
		declared(lost, "kubernetes:p/lost")})
	var refused config.Refusals
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused, 1)
	require.ErrorContains(t, refused[configstore.Ref{Kind: "Model", Name: "lost"}], "Provider nowhere does not exist")
	require.Equal(t, http.StatusNotFound, b.do(t, "GET", "/admin/v1/providers/good", "").status)
}

// The key of a declared Key is known to who declares it. Another one takes its place, and it stays good for a while.
func TestADeclaredKeyIsRotatedByItsSecret(t *testing.T) {
	b := newBench(t)
	changes, ctx := api.Changes(b.config), asDeclarer(t)
	first, second := auth.Generate(), auth.Generate()
	key := declared(&configv1.Key{Name: "key_1", DisplayName: "web"}, "kubernetes:p/web")
	stored := func() *configv1.Key {
		e, err := b.store.Get(ctx, configv1.KeyKind(), "key_1")
		require.NoError(t, err)
		return e.Object.(*configv1.Key)
	}
	key.Secret, key.Grace = first, time.Hour
	for range 2 { // again, it changes nothing
		_, err := changes.Declare(ctx, []owned.Declared{key})
		require.NoError(t, err)
		hash := b.hasher.Hash(first.Reveal())
		require.Equal(t, hash[:], stored().GetHash())
		require.Nil(t, stored().GetRetired())
	}
	key.Secret = second
	_, err := changes.Declare(ctx, []owned.Declared{key})
	require.NoError(t, err)
	hash := b.hasher.Hash(first.Reveal())
	require.Equal(t, hash[:], stored().GetRetired().GetHash())
}

func TestAPruneLeavesWhatIsDeclaredElsewhere(t *testing.T) {
	b := newBench(t)
	ctx := asDeclarer(t)
	_, err := api.Changes(b.config).Declare(ctx, []owned.Declared{declared(echo("mine"), "kubernetes:p/mine")})
	require.NoError(t, err)
	_, err = b.client.Apply(ctx, []configv1.Object{echo("file"), echo("file-2")}, false)
	require.NoError(t, err)
	answer, err := b.client.ApplyPruning(ctx, []configv1.Object{echo("file")}, adminapi.PruneSome, false)
	require.NoError(t, err)
	require.Len(t, answer.Changes, 2)
	require.Equal(t, http.StatusOK, b.do(t, "GET", "/admin/v1/providers/mine", "").status)
}
