package configstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

const (
	many = 20_000
	// some are more than one transaction takes.
	some = 8_000
)

// generation is so many providers, all of which say which generation they are of.
func generation(n int, of string) []configstore.Change {
	changes := make([]configstore.Change, n)
	for i := range changes {
		p := provider(fmt.Sprintf("provider-of-a-tenant-%05d", i))
		p.Models = []string{of, strings.Repeat("x", 80)}
		changes[i] = change(p)
	}
	return changes
}

// generations returns how many providers are of which generation.
func generations(objects map[string]configv1.Object) map[string]int {
	found := map[string]int{}
	for _, o := range objects {
		found[o.(*configv1.Provider).GetModels()[0]]++
	}
	return found
}

func listed(ctx context.Context, s *configstore.Store) (map[string]int, error) {
	objects := map[string]configv1.Object{}
	entries, err := s.List(ctx, configv1.KindOf((*configv1.Provider)(nil)))
	for _, e := range entries {
		objects[e.Name] = e.Object
	}
	return generations(objects), err
}

func mustList(t *testing.T, s *configstore.Store) map[string]int {
	t.Helper()
	found, err := listed(t.Context(), s)
	require.NoError(t, err)
	return found
}

func requireNothingStaged(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	left, err := etcd.Get(t.Context(), "/modelgate/staged", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	require.Empty(t, left.Kvs)
}

// What no transaction takes is stored all the same, and those who follow never have half of it. (report 13)
func TestManyObjectsAreAppliedAtOnce(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	delivered := make(chan configstore.State, 100)
	all.Go(func() { newStore(t, etcd).Run(ctx, func(s configstore.State) { delivered <- s }) })
	require.Empty(t, (<-delivered).Objects["Provider"])

	last := map[string]int{}
	_, err := etcd.Put(t.Context(), "/head", "")
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		next := map[string]int{name: many}
		was := map[string]string{"b": "a"}[name]
		revision, err := store.Apply(t.Context(), mustSnapshot(t, store).Revision, generation(many, name), configstore.Also{
			If:   []clientv3.Cmp{clientv3.Compare(clientv3.Value("/head"), "=", was)},
			Now:  []clientv3.Op{clientv3.OpPut("/head", name)},
			With: []clientv3.Op{clientv3.OpPut("/audit/"+name, "x")}})
		require.NoError(t, err)
		require.Equal(t, next, mustList(t, store))
		for {
			s := <-delivered
			found := generations(s.Objects["Provider"])
			if s.Revision >= revision {
				require.Equal(t, next, found)
				break
			}
			require.Equal(t, last, found)
		}
		last = next
	}
	requireNothingStaged(t, etcd)
	audit, err := etcd.Get(t.Context(), "/audit/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, audit.Kvs, 2)

	_, err = store.Apply(t.Context(), mustSnapshot(t, store).Revision, generation(many, "c"), configstore.Also{
		If:  []clientv3.Cmp{clientv3.Compare(clientv3.Value("/head"), "=", "a")},
		Now: []clientv3.Op{clientv3.OpPut("/head", "c")}})
	require.ErrorIs(t, err, configstore.ErrConflict, "the head is another")
	require.Equal(t, last, mustList(t, store))
	requireNothingStaged(t, etcd)
}

// Readers who come while changes are made wait for them, and so do writers, who learn of what was changed.
func TestNobodyReadsHalfOfStagedChanges(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	_, err := store.Apply(t.Context(), 1, generation(some, "a"))
	require.NoError(t, err)
	before := mustSnapshot(t, store).Revision

	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				found, err := listed(ctx, store)
				if ctx.Err() != nil {
					return
				}
				if err != nil || len(found) != 1 {
					t.Errorf("half of a change was read: %v, %v", found, err)
					return
				}
			}
		})
	}
	_, err = store.Apply(t.Context(), before, generation(some, "b"))
	end()
	readers.Wait()
	require.NoError(t, err)
	_, err = store.Put(t.Context(), provider("provider-of-a-tenant-00000"), before)
	require.ErrorIs(t, err, configstore.ErrConflict)
	_, err = store.Apply(t.Context(), before, generation(some, "c"))
	require.ErrorIs(t, err, configstore.ErrConflict)
	require.Equal(t, map[string]int{"b": some}, mustList(t, store))
}

// dying returns a client whose last request to etcd is made and not answered: it makes so many, and then none.
func dying(t *testing.T, server *etcdtest.Server, requests int64) *clientv3.Client {
	t.Helper()
	var asked atomic.Int64
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, in, out any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
				options ...grpc.CallOption) error {
				n := asked.Add(1)
				if n <= requests {
					if err := invoke(ctx, method, in, out, c, options...); err != nil || n < requests {
						return err
					}
				}
				return status.Error(codes.Internal, "it has died")
			})},
	})
	require.NoError(t, err)
	return client
}

// One who stages dies after each of its requests to etcd: either nothing is changed, or all is, by whoever comes next.
func TestWhoStagesMayDieAtAnyTime(t *testing.T) {
	server := etcdtest.New(t)
	etcd := server.Client(t)
	store := newStore(t, etcd)
	decided, not := 0, 0
	for requests := int64(1); ; requests++ {
		_, err := etcd.Delete(t.Context(), "/modelgate/", clientv3.WithPrefix())
		require.NoError(t, err)
		_, err = store.Put(t.Context(), provider("other"), 0)
		require.NoError(t, err)
		base := mustSnapshot(t, store).Revision
		dead := dying(t, server, requests)
		_, err = newStore(t, dead).Apply(t.Context(), base, generation(some, "a"))
		_ = dead.Close()
		if err == nil {
			break
		}
		leases, err := etcd.Leases(t.Context())
		require.NoError(t, err)
		for _, l := range leases.Leases { // as time does
			_, err := etcd.Revoke(t.Context(), l.ID)
			require.NoError(t, err)
		}
		_, err = store.Put(t.Context(), provider("after"), 0)
		require.NoError(t, err)
		switch found := len(mustSnapshot(t, store).Entries); found {
		case 2:
			not++
		case some + 2:
			decided++
		default:
			require.Fail(t, "half of it is there", "%d objects after %d requests", found, requests)
		}
		_, err = store.Apply(t.Context(), mustSnapshot(t, store).Revision, generation(some, "b"))
		require.NoError(t, err)
		requireNothingStaged(t, etcd)
	}
	require.GreaterOrEqual(t, not, 4)
	require.GreaterOrEqual(t, decided, 3)
}

// Changes for which etcd has no room are refused before they are decided, and leave it as it was.
func TestStagedChangesNeedRoom(t *testing.T) {
	etcd := etcdtest.WithQuota(t, 16<<20).Client(t)
	store := newStore(t, etcd)
	_, err := store.Apply(t.Context(), 1, generation(many, strings.Repeat("y", 200)))
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	_, err = store.Put(t.Context(), provider("small"), 0)
	require.NoError(t, err, "etcd is not full")
	require.Len(t, mustSnapshot(t, store).Entries, 1)
	requireNothingStaged(t, etcd)
}

// A member of etcd that takes connections and says nothing is not waited for.
func TestStagedChangesDoNotWaitForAMemberThatHangs(t *testing.T) {
	t.Parallel()
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { hangs.Close() })
	server := etcdtest.New(t)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + hangs.Addr().String(), server.Endpoint()},
		Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = etcd.Close() })
	ctx, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	_, err = newStore(t, etcd).Apply(ctx, 1, generation(some, "a"))
	require.NoError(t, err)
}

// Of two who stage at once on the same revision one is late, and nothing of theirs is there.
func TestOfTwoWhoStageOneIsLate(t *testing.T) {
	etcd := etcdtest.Start(t)
	errs := map[string]error{}
	var mu sync.Mutex
	var both sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		both.Go(func() {
			_, err := newStore(t, etcd).Apply(t.Context(), 1, generation(some, name))
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	both.Wait()
	won, lost := "a", "b"
	if errs[won] != nil {
		won, lost = lost, won
	}
	require.NoError(t, errs[won])
	require.ErrorIs(t, errs[lost], configstore.ErrConflict)
	require.Equal(t, map[string]int{won: some}, mustList(t, newStore(t, etcd)))
	requireNothingStaged(t, etcd)
}
