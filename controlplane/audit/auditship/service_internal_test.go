package auditship

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/internal/configstore"
)

// receiver serves a webhook. Before is called with each batch that has a right signature, and says the status. The
// batch is taken at 200. If the status is negative, the connection breaks.
func receiver(t *testing.T, k *taker, before func(some []adminapi.AuditEntry) int) *httptest.Server {
	verifier, err := standardwebhooks.NewWebhook(signing)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var event struct {
			ID, Type string
			Data     struct{ Entries []adminapi.AuditEntry }
		}
		if verifier.Verify(body, r.Header) != nil || json.Unmarshal(body, &event) != nil ||
			event.Type != "audit.entries" || event.ID != r.Header.Get(standardwebhooks.HeaderWebhookID) {
			t.Errorf("a bad message: %v %s", r.Header, body[:min(len(body), 500)])
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		status := before(event.Data.Entries)
		if status == http.StatusOK || status == -http.StatusOK {
			k.take(event.Data.Entries...)
		}
		if status < 0 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		rw.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server
}

func taking([]adminapi.AuditEntry) int { return http.StatusOK }

func TestEveryEntryIsDeliveredInOrderToAReceiverThatFailsAtRandom(t *testing.T) {
	var k taker
	server := receiver(t, &k, func([]adminapi.AuditEntry) int {
		return []int{200, 200, 200, -200, -500, 500, 503, 429, 307}[rand.N(9)]
	})
	w := newWorld(t, hook("ops", server.URL))
	w.write(1500)
	s := w.service()
	registry := prometheus.NewRegistry()
	require.NoError(t, s.Register(registry))
	w.run(s)
	for range 20 { // more comes meanwhile
		w.write(50)
		var at int64
		w.set(func() { at = w.head.Sequence })
		require.Eventually(t, func() bool { return w.status(s, "ops").Sequence > at-200 }, patience, tick)
	}
	at := w.delivered(s, "ops")
	w.requireAll(&k)
	require.EqualValues(t, 2500, at.Sequence)
	require.Zero(t, at.Missing)
	require.Positive(t, testutil.ToFloat64(s.failures.WithLabelValues("ops")))
	require.Eventually(t, func() bool { return testutil.ToFloat64(s.backlog.WithLabelValues("ops")) == 0 }, patience,
		tick)
}

func TestControlPlanesThatDieInTheMidstLoseNothing(t *testing.T) {
	var k taker
	var hangs atomic.Bool
	entered := make(chan struct{}, 1000)
	server := receiver(t, &k, func(some []adminapi.AuditEntry) int {
		entered <- struct{}{}
		if hangs.Load() && len(some) > 0 {
			return -200 // it has them, and nobody hears of it
		}
		return 200
	})
	w := newWorld(t, hook("ops", server.URL))
	w.write(700)
	hangs.Store(true)
	for range 6 {
		first, second := w.service(), w.service()
		stopFirst, stopSecond := w.run(first), w.run(second)
		<-entered // one of them delivers
		stopFirst()
		w.write(30)
		hangs.Store(false)
		<-entered // the other, or the same, does
		stopSecond()
		hangs.Store(rand.N(2) == 0)
	}
	hangs.Store(false)
	s := w.service()
	w.run(s)
	w.delivered(s, "ops")
	w.requireAll(&k)
}

func TestOnlyWhoLeadsDelivers(t *testing.T) {
	var k taker
	server := receiver(t, &k, taking)
	w := newWorld(t, hook("ops", server.URL))
	w.write(3)
	first, second := w.service(), w.service()
	stop := w.run(first)
	w.delivered(first, "ops")
	w.run(second)
	w.write(3)
	w.delivered(second, "ops")
	require.Len(t, k.taken(), 6, "nothing is delivered twice")

	lost := clientv3.Compare(clientv3.Version(turn), ">", 1000)
	resigned := false
	f := &follower{Service: second, lead: lost, resign: func() { resigned = true }, name: "ops"}
	w.write(1)
	require.Equal(t, tick, f.step(t.Context(), second.sink("ops")))
	require.False(t, f.known, "who does not lead delivers nothing")
	require.True(t, resigned)
	stop()
	w.write(3)
	w.delivered(second, "ops")
	w.requireAll(&k)
}

func TestAReceiverThatIsAwayForLongHoldsUpNoOther(t *testing.T) {
	var k, other taker
	var away atomic.Bool
	away.Store(true)
	server := receiver(t, &k, func([]adminapi.AuditEntry) int {
		if away.Load() {
			return http.StatusGone // also then it is told of everything later
		}
		return 200
	})
	well := receiver(t, &other, taking)
	w := newWorld(t, hook("away", server.URL), hook("well", well.URL))
	w.write(500)
	s := w.service()
	w.run(s)
	w.delivered(s, "well")
	require.Eventually(t, func() bool { return w.status(s, "away").FailingSince != nil }, patience, tick)
	w.set(func() { w.ahead = 24 * time.Hour })
	w.write(500)
	w.delivered(s, "well")
	at := w.status(s, "away")
	require.Equal(t, "it answered with status 410", at.Error)
	require.Equal(t, noon, *at.FailingSince)
	require.EqualValues(t, 1000, at.Backlog)
	require.Nil(t, at.DeliveredAt)

	away.Store(false)
	at = w.delivered(s, "away")
	require.Nil(t, at.FailingSince)
	require.Equal(t, noon.Add(24*time.Hour), *at.DeliveredAt)
	w.requireAll(&k)
	w.requireAll(&other)
}

func TestALedgerThatIsAwayIsToldAndWaitedFor(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.set(func() { w.away = true })
	s := w.service()
	w.run(s)
	require.Eventually(t, func() bool { return w.status(s, "ops").Error != "" }, patience, tick)
	w.set(func() { w.away = false })
	require.Eventually(t, func() bool { return w.status(s, "ops").Error == "" }, patience, tick, "nothing is left to do")
	w.write(1)
	w.delivered(s, "ops")
	w.requireAll(&k)
}

func TestAHugeEntryIsABatchOfItsOwn(t *testing.T) {
	var k taker
	most := 0
	server := receiver(t, &k, func(some []adminapi.AuditEntry) int {
		for _, e := range some {
			if len(e.Diff) > maxBytes && len(some) > 1 {
				t.Error("the huge entry is not alone")
			}
		}
		most = max(most, len(some))
		if len(some) > 20 {
			return http.StatusRequestEntityTooLarge
		}
		return 200
	})
	w := newWorld(t, hook("ops", server.URL))
	w.write(100)
	w.set(func() { w.chain(adminapi.AuditEntry{Action: "huge", Diff: long(5 << 20)}) })
	w.write(100)
	w.set(func() {
		for range 100 {
			w.chain(adminapi.AuditEntry{Action: "large", Diff: long(16 << 10)})
		}
	})
	s := w.service()
	w.run(s)
	w.delivered(s, "ops")
	w.requireAll(&k)
	require.Equal(t, 100, most, "batches are bounded by their bytes")
}

func TestAGapIsPassedOnlyOnceNothingIsOnItsWay(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.write(10)
	var late []adminapi.AuditEntry
	w.set(func() {
		w.pending = true
		for _, sequence := range []int{4, 5, 6, 8} {
			late = append(late, w.entries[idOf(sequence*10)])
			delete(w.entries, idOf(sequence*10))
		}
	})
	s := w.service()
	w.run(s)
	require.Eventually(t, func() bool { return w.status(s, "ops").Sequence == 3 }, patience, tick)
	reads := 0
	w.set(func() { reads = w.reads })
	require.Eventually(t, func() bool {
		more := false
		w.set(func() { more = w.reads > reads+3 })
		return more
	}, patience, tick)
	require.Len(t, k.taken(), 3)
	w.set(func() {
		for _, e := range late[:3] {
			w.entries[e.ID] = e
		}
	})
	require.Eventually(t, func() bool { return w.status(s, "ops").Sequence == 7 }, patience, tick)
	w.set(func() { w.pending = false })
	at := w.delivered(s, "ops")
	require.EqualValues(t, 1, at.Missing, "the eighth was removed")
	require.Len(t, k.taken(), 9)
}

func TestEntriesOutsideTheChainAreDeliveredToo(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	outside := func(id string) adminapi.AuditEntry {
		e := adminapi.AuditEntry{ID: id, At: noon, Actor: "ann", Address: "::1", Action: "delete"}
		w.entries[id] = e
		return e
	}
	w.set(func() {
		for i := range 450 {
			outside("00" + idOf(i)[2:])
		}
	})
	s := w.service()
	w.run(s)
	require.Eventually(t, func() bool { return len(k.taken()) == 450 }, patience, tick)
	w.write(3)
	w.delivered(s, "ops")
	w.set(func() { outside(idOf(45)) })
	require.Eventually(t, func() bool { return len(k.taken()) == 454 }, patience, tick)
	w.write(3) // of which the first has a lower id
	w.delivered(s, "ops")
	ids := map[string]int{}
	for _, e := range k.taken() {
		ids[e.ID]++
	}
	require.Len(t, k.taken(), 457)
	require.Len(t, ids, 457)

	// One that comes after others with higher ids comes with the entry that vouches for it.
	w.set(func() {
		e := outside(idOf(25))
		hash, err := auditchain.Hash(e)
		require.NoError(t, err)
		w.chain(adminapi.AuditEntry{Actor: "control plane", Action: auditchain.Vouch, Name: e.ID, Diff: hash})
	})
	w.delivered(s, "ops")
	all := k.taken()
	require.Equal(t, idOf(25), all[len(all)-2].ID)
	require.Equal(t, auditchain.Vouch, all[len(all)-1].Action)
}

func TestASecondChainIsDeliveredToo(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.write(5)
	s := w.service()
	w.run(s)
	w.delivered(s, "ops")
	w.set(func() { // etcd has lost the head while the ledger was away
		again := []adminapi.AuditEntry{{ID: idOf(90), At: noon, Actor: "ann"}, {ID: idOf(91), At: noon, Actor: "ann"}}
		var err error
		w.head, err = auditchain.Head{}.Link(again)
		require.NoError(t, err)
		for _, e := range again {
			w.entries[e.ID] = e
		}
	})
	require.Eventually(t, func() bool { return len(k.taken()) == 7 }, patience, tick)
	require.Eventually(t, func() bool { return w.delivered(s, "ops").Sequence == 2 }, patience, tick)
}

func TestWhereANewSinkBegins(t *testing.T) {
	var old, now taker
	late := hook("late", receiver(t, &now, taking).URL)
	late.FromNow = true
	w := newWorld(t, hook("all", receiver(t, &old, taking).URL), late)
	add := func(at time.Time, sequence int64) {
		id := ulid.ULID{15: 1}
		require.NoError(t, id.SetTime(ulid.Timestamp(at)))
		w.set(func() {
			w.head.Sequence = sequence
			w.entries[id.String()] = adminapi.AuditEntry{ID: id.String(), At: at, Sequence: sequence}
		})
	}
	add(noon.Add(-time.Hour), 7)
	add(noon.Add(-time.Second), 8)
	s := w.service()
	require.EqualValues(t, 2, w.status(s, "all").Backlog, "from the oldest that there is")
	w.run(s)
	w.delivered(s, "all")
	w.delivered(s, "late")
	add(noon.Add(time.Second), 9)
	w.delivered(s, "late")
	w.delivered(s, "all")
	require.Len(t, old.taken(), 3)
	require.Len(t, now.taken(), 2, "and what was written just before")

	// A sink that is disabled keeps its position; one that is removed does not.
	w.set(func() {
		w.objects[0].(*configv1.AuditSink).Disabled = true
		w.objects = w.objects[:1]
	})
	gone := func() bool {
		all, err := s.store.all(t.Context())
		require.NoError(t, err)
		_, there := all["late"]
		return !there && all["all"].Sequence == 9
	}
	require.Eventually(t, gone, patience, tick)
	add(noon.Add(2*time.Second), 10)
	require.EqualValues(t, 1, w.status(s, "all").Backlog)
	require.True(t, w.status(s, "all").Disabled)
	w.set(func() { w.objects[0] = hook("all", w.objects[0].(*configv1.AuditSink).GetWebhook().GetUrl()) })
	w.delivered(s, "all")
	require.Len(t, old.taken(), 4)
}

func TestACorrectedSinkIsTriedAtOnce(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", "http://127.0.0.1:1/"))
	w.write(1)
	s := w.service()
	s.pause = func(int, time.Duration) time.Duration { return time.Hour }
	w.run(s)
	require.Eventually(t, func() bool { return w.status(s, "ops").Error == "it cannot be reached" }, patience, tick)
	w.set(func() { w.objects[0] = hook("ops", receiver(t, &k, taking).URL) })
	w.delivered(s, "ops")
	w.requireAll(&k)
}

func TestAPositionThatEtcdHasLostIsKept(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.write(5)
	s := w.service()
	w.run(s)
	w.delivered(s, "ops")
	_, err := w.etcd.Delete(context.Background(), positions+"ops")
	require.NoError(t, err)
	w.write(5)
	w.delivered(s, "ops")
	w.write(5)
	w.delivered(s, "ops")
	w.requireAll(&k)
	require.Less(t, len(k.taken()), 25)
}

func TestNothingIsWrittenIntoAnEtcdThatIsEmpty(t *testing.T) {
	var k taker
	w := newWorld(t, hook("ops", receiver(t, &k, taking).URL))
	w.write(5)
	s := w.service()
	w.run(s)
	w.delivered(s, "ops")
	_, err := w.etcd.Delete(t.Context(), "/modelgate/", clientv3.WithPrefix()) // also the lock, which is taken again
	require.NoError(t, err)
	w.write(5)
	require.Eventually(t, func() bool { return len(k.taken()) >= 10 }, patience, tick)
	w.write(5)
	require.Eventually(t, func() bool { return len(k.taken()) >= 15 }, patience, tick)
	all, err := s.store.all(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "a backup could not be restored")

	_, err = w.etcd.Put(t.Context(), configstore.RootKey, "x")
	require.NoError(t, err)
	w.write(5)
	w.delivered(s, "ops")
	w.requireAll(&k)
}

func TestPausesGrowAndEnd(t *testing.T) {
	last := time.Duration(0)
	for failed := range 20 {
		d := pause(failed, 0)
		require.GreaterOrEqual(t, d, last*4/6)
		require.LessOrEqual(t, d, 6*time.Minute)
		last = d
	}
	require.GreaterOrEqual(t, last, 5*time.Minute)
	require.Equal(t, time.Hour, pause(1, 1000*time.Hour))
}
