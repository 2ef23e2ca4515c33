package auditship

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/leader"
	"github.com/modelgate/modelgate/internal/testenv"
)

func TestAFullEtcdDoesNotEndTheDelivery(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.etcd = etcdtest.WithQuota(t, 2<<20).Client(t)
	_, err := w.etcd.Put(t.Context(), configstore.RootKey, "x")
	require.NoError(t, err)
	w.write(5)
	s := w.service()
	w.run(s)
	w.delivered(s, "ops")
	for err == nil {
		_, err = w.etcd.Put(t.Context(), "/other/"+time.Now().String(), strings.Repeat("x", 200_000))
	}
	for n := range 3 {
		w.write(5)
		require.Eventually(t, func() bool { return len(k.taken()) == 10+5*n }, patience, tick)
	}
	require.EqualValues(t, 5, w.status(s, "ops").Sequence, "etcd does not take the position")

	deleted, err := w.etcd.Delete(t.Context(), "/other/", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = w.etcd.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = w.etcd.Defragment(t.Context(), w.etcd.Endpoints()[0])
	require.NoError(t, err)
	_, err = w.etcd.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	w.delivered(s, "ops")
	w.requireAll(&k)
	require.Len(t, k.taken(), 20, "and nothing twice")
}

func TestAControlPlaneThatIsKilledIsReplacedWhenItsLeaseEnds(t *testing.T) {
	testenv.Long(t)
	var k taker
	server := etcdtest.New(t)
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.etcd = server.Client(t)
	_, err := w.etcd.Put(t.Context(), configstore.RootKey, "x")
	require.NoError(t, err)
	w.write(5)
	killed := w.service()
	own := server.Client(t)
	killed.options.Etcd, killed.store = own, store{own}
	w.run(killed)
	w.delivered(killed, "ops")
	s := w.service()
	w.run(s)
	require.NoError(t, own.Close()) // it can tell nobody, and keeps no lease alive
	w.write(5)
	require.Eventually(t, func() bool { return w.status(s, "ops").Sequence == 10 }, 3*leader.TTL*time.Second, 10*tick)
	w.requireAll(&k)
}
