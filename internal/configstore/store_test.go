package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

var (
	providers = configv1.KindOf((*configv1.Provider)(nil))
	models    = configv1.KindOf((*configv1.Model)(nil))
)

func validate(o configv1.Object) error {
	return configv1.ValidateStored(o, func(string) (configv1.Vendor, bool) { return configv1.Vendor{}, true }).Err()
}

func newStore(t *testing.T, etcd *clientv3.Client) *configstore.Store {
	t.Helper()
	return configstore.New(etcd, validate, zap.NewNop())
}

func provider(name string) *configv1.Provider {
	return &configv1.Provider{Name: name, Vendor: "openai"}
}

func model(name, provider string) *configv1.Model {
	return &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: provider, Model: "m"}}}
}

func change(o configv1.Object) configstore.Change {
	return configstore.Change{Kind: configv1.KindOf(o), Name: o.GetName(), Object: o}
}

func TestPutIsACompareAndSwap(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	first, err := store.Put(t.Context(), provider("a"), 0)
	require.NoError(t, err)
	_, err = store.Put(t.Context(), provider("a"), 0)
	require.ErrorIs(t, err, configstore.ErrConflict, "it is there already")

	changed := provider("a")
	changed.Disabled = true
	second, err := store.Put(t.Context(), changed, first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = store.Put(t.Context(), provider("a"), first)
	require.ErrorIs(t, err, configstore.ErrConflict, "the revision is an old one")

	got, err := store.Get(t.Context(), providers, "a")
	require.NoError(t, err)
	require.Equal(t, second, got.Revision)
	require.Empty(t, cmp.Diff(configv1.Object(changed), got.Object, protocmp.Transform()))

	third, err := store.Put(t.Context(), provider("a"), configstore.AnyRevision)
	require.NoError(t, err)
	require.Greater(t, third, second)
}

func TestDelete(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	revision, err := store.Put(t.Context(), provider("a"), 0)
	require.NoError(t, err)
	_, err = store.Delete(t.Context(), providers, "a", revision-1)
	require.ErrorIs(t, err, configstore.ErrConflict)
	_, err = store.Delete(t.Context(), providers, "a", revision)
	require.NoError(t, err)
	_, err = store.Get(t.Context(), providers, "a")
	require.ErrorIs(t, err, configstore.ErrNotFound)
	_, err = store.Delete(t.Context(), providers, "a", configstore.AnyRevision)
	require.ErrorIs(t, err, configstore.ErrNotFound)
	_, err = store.Delete(t.Context(), providers, "a", revision)
	require.ErrorIs(t, err, configstore.ErrConflict)
}

func TestOfTwoWritersExactlyOneWinsEachRound(t *testing.T) {
	etcd := etcdtest.Start(t)
	stores := []*configstore.Store{newStore(t, etcd), newStore(t, etcd)}
	revision := int64(0)
	for range 20 {
		var won atomic.Int64
		var wins atomic.Int32
		var wg sync.WaitGroup
		for i, store := range stores {
			wg.Go(func() {
				p := provider("a")
				p.Models = []string{fmt.Sprintf("m%d", i)}
				r, err := store.Put(t.Context(), p, revision)
				switch {
				case err == nil:
					won.Store(r)
					wins.Add(1)
				case !errors.Is(err, configstore.ErrConflict):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, wins.Load())
		revision = won.Load()
	}
}

func TestNamesWithSlashesAreKeysOfTheirOwn(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	for _, name := range []string{"a", "a/b", "a/b/c"} {
		_, err := store.Put(t.Context(), model(name, "p"), 0)
		require.NoError(t, err)
	}
	list, err := store.List(t.Context(), models)
	require.NoError(t, err)
	var names []string
	for _, e := range list {
		require.NoError(t, e.Err)
		names = append(names, e.Name)
	}
	require.Equal(t, []string{"a", "a/b", "a/b/c"}, names)
	raw, err := etcd.Get(t.Context(), "/modelgate/v1/models/a%2Fb%2Fc")
	require.NoError(t, err)
	require.Len(t, raw.Kvs, 1)
	require.JSONEq(t, `{"name":"a/b/c","targets":[{"provider":"p","model":"m"}]}`, string(raw.Kvs[0].Value))
}

func TestWhatIsInvalidIsNotWritten(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	_, err := store.Put(t.Context(), provider("NO"), 0)
	require.ErrorAs(t, err, new(configv1.Errors))
	_, err = store.Apply(t.Context(), 1, []configstore.Change{change(provider("a")), change(model("m", ""))})
	require.ErrorAs(t, err, new(configv1.Errors))
	snapshot, err := store.Snapshot(t.Context())
	require.NoError(t, err)
	require.Empty(t, snapshot.Entries)
}

func TestApplyIsAllOrNothing(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	_, err := store.Put(t.Context(), provider("old"), 0)
	require.NoError(t, err)
	base, err := store.Snapshot(t.Context())
	require.NoError(t, err)

	revision, err := store.Apply(t.Context(), base.Revision, []configstore.Change{
		change(provider("a")), change(model("m", "a")), {Kind: providers, Name: "old"},
	})
	require.NoError(t, err)
	after, err := store.Snapshot(t.Context())
	require.NoError(t, err)
	require.Len(t, after.Entries, 2)
	for _, e := range after.Entries {
		require.Equal(t, revision, e.Revision, "one transaction is one revision")
	}
	require.NotNil(t, after.Find(models, "m"))
	require.Nil(t, after.Find(providers, "m"))

	_, err = store.Apply(t.Context(), base.Revision, []configstore.Change{change(provider("late"))})
	require.ErrorIs(t, err, configstore.ErrConflict)
	require.Nil(t, mustSnapshot(t, store).Find(providers, "late"))
}

func mustSnapshot(t *testing.T, store *configstore.Store) *configstore.Snapshot {
	t.Helper()
	snapshot, err := store.Snapshot(t.Context())
	require.NoError(t, err)
	return snapshot
}

func TestApplySeesEveryWayInWhichTheConfigurationChanged(t *testing.T) {
	for name, disturb := range map[string]func(context.Context, *clientv3.Client, *configstore.Store) error{
		"another object is written": func(ctx context.Context, _ *clientv3.Client, s *configstore.Store) error {
			_, err := s.Put(ctx, provider("other"), 0)
			return err
		},
		"another object is deleted": func(ctx context.Context, _ *clientv3.Client, s *configstore.Store) error {
			_, err := s.Delete(ctx, providers, "a", configstore.AnyRevision)
			return err
		},
		"someone writes to etcd": func(ctx context.Context, etcd *clientv3.Client, _ *configstore.Store) error {
			_, err := etcd.Put(ctx, "/modelgate/v1/providers/x", "garbage")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := etcdtest.Start(t)
			store := newStore(t, etcd)
			_, err := store.Put(t.Context(), provider("a"), 0)
			require.NoError(t, err)
			base := mustSnapshot(t, store).Revision
			_, err = etcd.Put(t.Context(), "/elsewhere", "x")
			require.NoError(t, err)
			require.NoError(t, disturb(t.Context(), etcd, store))
			_, err = store.Apply(t.Context(), base, []configstore.Change{change(provider("b"))})
			require.ErrorIs(t, err, configstore.ErrConflict)
		})
	}
}

func TestApplyTakesMoreObjectsThanOneTransactionOfEtcd(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	var changes []configstore.Change
	for i := range 8000 {
		changes = append(changes, change(provider(fmt.Sprintf("p%d", i))))
	}
	_, err := store.Apply(t.Context(), 1, changes)
	require.NoError(t, err)
	require.Len(t, mustSnapshot(t, store).Entries, 8000)
}

func TestApplyTakesManyKeys(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	var changes []configstore.Change
	for i := range 500 {
		changes = append(changes, change(&configv1.Key{Name: fmt.Sprintf("key_%d", i), DisplayName: "n",
			Hash: make([]byte, 32)}))
	}
	base := mustSnapshot(t, store).Revision
	_, err := store.Apply(t.Context(), base, changes)
	require.NoError(t, err)
	_, err = store.Apply(t.Context(), base, changes)
	require.ErrorIs(t, err, configstore.ErrConflict, "they have changed since")
}

func TestWhatIsTooLargeIsRefusedClearly(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	fill := func(name string, size int) *configv1.Provider {
		p := provider(name)
		for i := 0; i*240 < size; i++ {
			p.Models = append(p.Models, fmt.Sprintf("%0240d", i))
		}
		return p
	}
	_, err := store.Put(t.Context(), fill("a", configstore.MaxBytes+1000), 0)
	require.ErrorIs(t, err, configstore.ErrTooLarge)
	require.ErrorContains(t, err, "Provider a has 15")
	require.ErrorContains(t, err, "larger than 1500000 bytes")

	_, err = store.Apply(t.Context(), 1, []configstore.Change{change(fill("a", 800_000)),
		change(fill("b", configstore.MaxBytes-50_000))})
	require.NoError(t, err, "together they may be larger")

	_, err = store.Put(t.Context(), fill("c", configstore.MaxBytes-50_000), 0)
	require.NoError(t, err, "what is just small enough is taken")
}

func TestGarbageDoesNotKeepAnyoneFromReading(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	_, err := store.Put(t.Context(), provider("good"), 0)
	require.NoError(t, err)
	for key, v := range map[string]string{
		"providers/bytes":      "\x00\xff",
		"providers/unknown":    `{"name":"unknown","vendor":"x","x":1}`,
		"providers/another":    `{"name":"other","vendor":"x"}`,
		"providers/invalid":    `{"name":"invalid"}`,
		"providers/in%2Fclear": `{"name":"in/clear","vendor":"x","credential":{"value":"sk-secret"}}`,
		"nothing/here":         `{}`,
		"stray":                `x`,
	} {
		_, err := etcd.Put(t.Context(), "/modelgate/v1/"+key, v)
		require.NoError(t, err)
	}
	list, err := store.List(t.Context(), providers)
	require.NoError(t, err)
	errs := map[string]string{}
	for _, e := range list {
		errs[e.Name] = ""
		if e.Err != nil {
			require.Nil(t, e.Object)
			errs[e.Name] = e.Err.Error()
			require.NotContains(t, errs[e.Name], "sk-secret")
		}
	}
	require.Len(t, errs, 6)
	require.Empty(t, errs["good"])
	require.Contains(t, errs["bytes"], "not a Provider")
	require.Contains(t, errs["unknown"], "x: unknown field")
	require.Contains(t, errs["another"], `of "other"`)
	require.Contains(t, errs["invalid"], "vendor")
	require.Contains(t, errs["in/clear"], "must be sealed")

	got, err := store.Get(t.Context(), providers, "bytes")
	require.NoError(t, err)
	require.Error(t, got.Err)
	_, err = store.Put(t.Context(), provider("bytes"), got.Revision)
	require.NoError(t, err, "garbage can be replaced")
}

func TestClaimBindsTheConfigurationToOneRoot(t *testing.T) {
	store := configstore.New(etcdtest.Start(t), func(configv1.Object) error { return nil }, zap.NewNop())
	require.NoError(t, store.Claim(t.Context(), "a"))
	require.NoError(t, store.Claim(t.Context(), "a"))
	require.ErrorIs(t, store.Claim(t.Context(), "b"), configstore.ErrOtherRoot)
}

func TestNothingIsClaimedWhileABackupIsRestored(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := configstore.New(etcd, func(configv1.Object) error { return nil }, zap.NewNop())
	_, err := etcd.Put(t.Context(), configstore.RestoringKey, "x")
	require.NoError(t, err)
	require.ErrorIs(t, store.Claim(t.Context(), "a"), configstore.ErrRestoring)
	_, err = etcd.Delete(t.Context(), configstore.RestoringKey)
	require.NoError(t, err)
	require.NoError(t, store.Claim(t.Context(), "b"))
}
