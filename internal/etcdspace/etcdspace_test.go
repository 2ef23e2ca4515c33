package etcdspace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

const quota = 8 << 20

// A store is an etcd with a small quota, what watches it, and a clock.
type store struct {
	t      *testing.T
	server *etcdtest.Server
	etcd   *clientv3.Client
	room   *etcdspace.Room
	now    time.Time
	keys   int
}

func newStore(t *testing.T) *store {
	t.Parallel()
	server := etcdtest.WithQuota(t, quota)
	etcd := server.Client(t)
	return &store{t: t, server: server, etcd: etcd, room: etcdspace.New(etcd, zap.NewNop()), now: time.Now()}
}

func (s *store) keeper() *etcdspace.Keeper {
	return etcdspace.NewKeeper(s.room, etcdspace.KeeperOptions{Compact: true, Defragment: true,
		Now: func() time.Time { return s.now }, Log: zap.NewNop()})
}

func (s *store) look() *etcdspace.State {
	s.t.Helper()
	state, err := s.room.Look(s.t.Context())
	require.NoError(s.t, err)
	return state
}

func (s *store) put(key string, bytes int) error {
	_, err := s.etcd.Put(s.t.Context(), key, strings.Repeat("x", bytes))
	return err
}

// fill writes keys until so much of the quota is in use.
func (s *store) fill(part float64) {
	s.t.Helper()
	for {
		if _, used := s.look().Fullest(); used >= part {
			return
		}
		s.keys++
		require.NoError(s.t, s.put(fmt.Sprint("key/", s.keys), 40_000))
		if s.keys%8 == 0 { // etcd commits ten times a second, and tells what it has committed
			s.committed()
		}
	}
}

func (s *store) committed() { <-time.After(120 * time.Millisecond) }

// overflow writes until etcd refuses, always the same key or one after the other.
func (s *store) overflow(key func(i int) string) {
	s.t.Helper()
	for i := range 1000 {
		if err := s.put(key(i), 100_000); err != nil {
			require.ErrorIs(s.t, err, rpctypes.ErrNoSpace)
			return
		}
	}
	s.t.Fatal("etcd has taken everything")
}

func same(int) string      { return "same" }
func another(i int) string { return fmt.Sprint("another/", i) }

// settled takes steps until check is true.
func (s *store) settled(k *etcdspace.Keeper, check func(*etcdspace.State) bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.look()
		k.Step(s.t.Context())
		s.now = s.now.Add(5 * time.Second)
		return check(s.look())
	}, time.Minute, 50*time.Millisecond)
}

func TestARoomKnowsHowFullEtcdIs(t *testing.T) {
	s := newStore(t)
	registry := prometheus.NewRegistry()
	require.NoError(t, s.room.Register(registry))
	require.Empty(t, s.room.Warning(), "nothing is known yet")
	state := s.look()
	require.Len(t, state.Members, 1)
	m := state.Members[0]
	require.Equal(t, int64(quota), m.Quota)
	require.True(t, m.Leader)
	require.Equal(t, "default", m.Name)
	require.Positive(t, m.InUse)
	require.GreaterOrEqual(t, m.Size, m.InUse)
	require.Zero(t, state.Missing)
	require.Empty(t, s.room.Warning())

	s.fill(0.61)
	require.Contains(t, s.room.Warning(), "etcd fills: ")
	require.Contains(t, s.room.Warning(), "of a quota of 8.4 MB")
	s.fill(0.81)
	text, severe := s.look().Warning()
	require.True(t, severe)
	require.Contains(t, text, "nearly full")
	s.overflow(another)
	require.True(t, s.look().Full)
	require.Contains(t, s.room.Warning(), "NOSPACE")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP modelgate_etcd_full 1 while etcd has raised the alarm NOSPACE: it takes deletions and nothing else.
# TYPE modelgate_etcd_full gauge
modelgate_etcd_full 1
# HELP modelgate_etcd_quota_bytes Quota of a member; 0: none.
# TYPE modelgate_etcd_quota_bytes gauge
modelgate_etcd_quota_bytes{member="default"} 8.388608e+06
`), "modelgate_etcd_full", "modelgate_etcd_quota_bytes"))

	s.server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := s.room.Look(ctx)
	require.Error(t, err)
	require.True(t, s.room.State().Full, "what was known last stays")
}

func TestTenantsCannotUseTheReserve(t *testing.T) {
	s := newStore(t)
	require.NoError(t, (*etcdspace.Room)(nil).Admit(etcdspace.Creation, 1<<30))
	require.NoError(t, s.room.Admit(etcdspace.Creation, 1<<30), "nothing is known yet")
	s.look()
	require.NoError(t, s.room.Admit(etcdspace.Creation, quota/2))
	require.ErrorIs(t, s.room.Admit(etcdspace.Creation, quota/2), etcdspace.ErrReserved, "what was admitted since counts")
	s.look()
	require.NoError(t, s.room.Admit(etcdspace.Creation, quota/2), "and not any more once etcd has been asked")
	s.fill(0.71)
	s.look()
	require.ErrorIs(t, s.room.Admit(etcdspace.Creation, 1), etcdspace.ErrReserved)
	require.NoError(t, s.room.Admit(etcdspace.Progress, 1), "what was accepted goes on")
	s.fill(0.86)
	s.look()
	require.ErrorIs(t, s.room.Admit(etcdspace.Progress, 1), etcdspace.ErrReserved)
	require.NoError(t, s.put("administration", 100_000))
}

func TestAKeeperMakesRoomOfWhatIsNotNeededAnyMore(t *testing.T) {
	s := newStore(t)
	s.overflow(same)
	require.True(t, s.look().Full)
	s.settled(s.keeper(), func(state *etcdspace.State) bool { return !state.Full })
	require.NoError(t, s.put("same", 100_000))
	r, err := s.etcd.Get(t.Context(), "same")
	require.NoError(t, err)
	require.Len(t, r.Kvs[0].Value, 100_000)
}

func TestAKeeperRepairsAnEtcdAtTheStart(t *testing.T) {
	s := newStore(t)
	s.overflow(same)
	s.server.Stop()
	s.server.Start(t)
	require.ErrorIs(t, s.put("same", 1), rpctypes.ErrNoSpace, "the alarm outlives a restart")
	require.NoError(t, s.keeper().Repair(t.Context()))
	require.NoError(t, s.put("same", 100_000))
}

func TestAnEtcdThatIsReallyFullStaysSoUntilSomethingIsDeleted(t *testing.T) {
	s := newStore(t)
	k := s.keeper()
	for n := 0; !s.look().Full; n++ { // a file that has grown by what etcd had not committed yet is not full of data
		require.Less(t, n, 20)
		s.overflow(func(i int) string { return fmt.Sprintf("another/%d/%d", n, i) })
		require.NoError(t, k.Repair(t.Context()))
	}
	require.ErrorIs(t, s.put("more", 1), rpctypes.ErrNoSpace)
	_, err := s.etcd.Delete(t.Context(), "another/", clientv3.WithPrefix())
	require.NoError(t, err, "etcd takes deletions")
	s.settled(k, func(state *etcdspace.State) bool { return !state.Full })
	require.NoError(t, s.put("more", 100_000))
}

func TestAKeeperKeepsTheHistoryOfTenMinutes(t *testing.T) {
	s := newStore(t)
	k := s.keeper()
	step := func(after time.Duration) {
		s.now = s.now.Add(after)
		s.look()
		k.Step(t.Context())
	}
	old := func(revision int64) error {
		_, err := s.etcd.Get(t.Context(), "same", clientv3.WithRev(revision))
		return err
	}
	require.NoError(t, s.put("same", 1))
	first := s.look().Revision
	step(0)
	require.NoError(t, s.put("same", 2))
	second := s.look().Revision
	step(5 * time.Minute)
	step(4 * time.Minute)
	require.NoError(t, old(first))
	require.NoError(t, s.put("same", 3))
	step(2 * time.Minute) // the first is eleven minutes old, the second six
	require.NoError(t, old(first), "what is compacted to can still be read")
	step(5 * time.Minute)
	require.ErrorIs(t, old(first), rpctypes.ErrCompacted)
	require.NoError(t, old(second))
}

func TestOnlyTheReplicaThatLeadsKeepsEtcd(t *testing.T) {
	s := newStore(t)
	s.overflow(same)
	leads := false
	k := etcdspace.NewKeeper(s.room, etcdspace.KeeperOptions{Compact: true, Defragment: true,
		Now: func() time.Time { return s.now }, Log: zap.NewNop(),
		Leads: func(context.Context) bool { return leads }})
	for range 5 {
		s.look()
		k.Step(t.Context())
		s.now = s.now.Add(time.Minute)
	}
	require.True(t, s.look().Full)
	leads = true
	s.settled(k, func(state *etcdspace.State) bool { return !state.Full })
}

func TestAKeeperThatIsSwitchedOffDoesNothing(t *testing.T) {
	s := newStore(t)
	s.overflow(same)
	k := etcdspace.NewKeeper(s.room, etcdspace.KeeperOptions{Now: func() time.Time { return s.now }, Log: zap.NewNop()})
	for range 5 {
		s.look()
		k.Step(t.Context())
		s.now = s.now.Add(time.Minute)
	}
	require.True(t, s.look().Full)
}

func TestARoomIsFollowed(t *testing.T) {
	s := newStore(t)
	ctx, stop := context.WithCancel(t.Context())
	looked := 0
	err := s.room.Run(ctx, func(context.Context) { looked++; stop() })
	require.True(t, errors.Is(err, context.Canceled))
	require.Equal(t, 1, looked)
	require.Len(t, s.room.State().Members, 1)
}
