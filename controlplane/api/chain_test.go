package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

const chainOutbox = "/modelgate/audit.chain/"

// enter writes entries to the log, one after the other.
func (b *bench) enter(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "ann", Action: "sign_in",
			Name: fmt.Sprint(i)}))
	}
}

func (b *bench) verified(t *testing.T) adminapi.AuditVerification {
	t.Helper()
	found, err := b.client.VerifyAudit(t.Context(), adminapi.ListOptions{})
	require.NoError(t, err)
	return found
}

func (b *bench) requireIntact(t *testing.T, entries int64) adminapi.AuditVerification {
	t.Helper()
	found := b.verified(t)
	require.True(t, found.Intact, "%+v %+v", found, found.Break)
	require.Equal(t, entries, found.Chained)
	require.Equal(t, found.HeadSequence, found.Last)
	return found
}

func (b *bench) requireBreak(t *testing.T, kind string, sequence int64) {
	t.Helper()
	found := b.verified(t)
	require.False(t, found.Intact)
	require.NotNil(t, found.Break, "%+v", found)
	require.Equal(t, kind, found.Break.Kind, found.Break)
	require.Equal(t, sequence, found.Break.Sequence, found.Break)
}

func (b *bench) head(t *testing.T) (head auditchain.Head) {
	t.Helper()
	r, err := b.etcd.Get(t.Context(), configstore.AuditHeadKey)
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	require.NoError(t, json.Unmarshal(r.Kvs[0].Value, &head))
	return head
}

func (b *bench) putHead(t *testing.T, head auditchain.Head) {
	t.Helper()
	value, err := json.Marshal(head)
	require.NoError(t, err)
	_, err = b.etcd.Put(t.Context(), configstore.AuditHeadKey, string(value))
	require.NoError(t, err)
}

// kept returns the entries in the ledger, by sequence.
func (b *bench) kept() []adminapi.AuditEntry {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	var all []adminapi.AuditEntry
	for _, e := range b.ledger.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b adminapi.AuditEntry) int { return int(a.Sequence - b.Sequence) })
	return all
}

// replace changes the ledger past the log.
func (b *bench) replace(all ...adminapi.AuditEntry) {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.entries = map[string]adminapi.AuditEntry{}
	for _, e := range all {
		b.ledger.entries[e.ID] = e
	}
}

func TestTheLogIsOneChain(t *testing.T) {
	b := newBench(t)
	require.True(t, b.verified(t).Intact, "an empty log")
	b.enter(t, 2)
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "ci"}) // alone
	require.NoError(t, err)
	_, err = b.client.Apply(t.Context(), []configv1.Object{model("m", "p"),
		&configv1.Provider{Name: "p", Vendor: "echo"}}, false)
	require.NoError(t, err)
	require.NoError(t, b.client.Delete(t.Context(), configv1.KeyKind(), made.ID))
	b.enter(t, 1)
	found := b.requireIntact(t, 7)
	require.Equal(t, b.head(t).Hash, found.Head)
	b.ship(t)
	require.Equal(t, found, b.requireIntact(t, 7))
	b.enter(t, 1)
	b.requireIntact(t, 8)

	entries := b.audited(t, adminapi.ListOptions{})
	for i, e := range entries {
		require.Equal(t, int64(8-i), e.Sequence, "ids ascend with sequences")
		require.Len(t, e.Hash, 64)
	}
	a := b.do(t, "GET", "/admin/v1/audit/verify?head="+strings.ToUpper(entries[3].Hash), "")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `"found":true,"sequence":5`)
	a = b.do(t, "GET", "/admin/v1/audit/verify?head="+strings.Repeat("0", 64), "")
	require.Contains(t, a.body, `"intact":false`)
	require.Contains(t, a.body, `"found":false`)
	requireError(t, b.do(t, "GET", "/admin/v1/audit/verify?head=a&head=b", ""), 400, "invalid_value", "head")
	b.ledger.setAway(true)
	requireError(t, b.do(t, "GET", "/admin/v1/audit/verify", ""), 503, "ledger_unavailable", "ledger")
}

func TestBreaksInTheLedgerAndInEtcdAreFound(t *testing.T) {
	b := newBench(t)
	b.enter(t, 6)
	b.ship(t)
	b.enter(t, 4) // and these are in etcd
	head, kept := b.head(t), b.kept()
	b.requireIntact(t, 10)

	changed := slices.Clone(kept)
	changed[2].Actor = "bob"
	b.replace(changed...)
	b.requireBreak(t, "changed", 3)
	b.replace(slices.Delete(slices.Clone(kept), 2, 3)...)
	b.requireBreak(t, "missing", 3)
	b.replace(kept[:5]...)
	b.requireBreak(t, "missing", 6)
	inserted := []adminapi.AuditEntry{{ID: kept[2].ID + "x", At: kept[2].At, Actor: "bob", Action: "delete"}}
	_, err := auditchain.Head{Sequence: 3, Hash: kept[2].Hash}.Link(inserted)
	require.NoError(t, err)
	b.replace(append(inserted, kept...)...)
	b.requireBreak(t, "inserted", 4)
	auditchain.Unlink(inserted)
	inserted[0].At = time.Now().Add(25 * time.Hour)
	b.replace(append(inserted, kept...)...)
	found := b.verified(t)
	require.False(t, found.Intact)
	require.Equal(t, inserted[0].ID, found.FirstOutside)
	b.replace(kept[3:]...)
	found = b.requireIntact(t, 7)
	require.Equal(t, int64(4), found.First, "older ones have expired")
	require.Equal(t, kept[3].At, *found.FirstAt)
	b.replace(kept...)

	last := fmt.Sprintf("%s%020d", chainOutbox, 10)
	r, err := b.etcd.Get(t.Context(), last)
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	put := func(value string) {
		_, err := b.etcd.Put(t.Context(), last, value)
		require.NoError(t, err)
	}
	put(strings.Replace(string(r.Kvs[0].Value), "ann", "bob", 1))
	b.requireBreak(t, "changed", 10)
	put("garbage")
	b.requireBreak(t, "missing", 10)
	_, err = b.etcd.Delete(t.Context(), last)
	require.NoError(t, err)
	b.requireBreak(t, "missing", 10)
	put(string(r.Kvs[0].Value))

	older := head
	older.Sequence, older.Hash = 9, kept[0].Hash
	b.putHead(t, older)
	b.requireBreak(t, "head", 9)
	b.putHead(t, auditchain.Head{Sequence: 10, Hash: kept[0].Hash})
	b.requireBreak(t, "head", 10)
	_, err = b.etcd.Put(t.Context(), configstore.AuditHeadKey, "garbage")
	require.NoError(t, err)
	b.requireBreak(t, "head", 10)
	b.putHead(t, head)
	b.requireIntact(t, 10)
}

// Two control planes on one etcd, each with a client of its own, and writers of every kind.
func TestConcurrentWritersLeaveOneChain(t *testing.T) {
	b := newBench(t)
	other := *b
	other.etcd = b.server.Client(t)
	other.audit = audit.New(other.etcd, b.ledger, b.ledger, zap.NewNop())
	other.config.Audit = other.audit
	other.config.Store = configstore.New(other.etcd, func(configv1.Object) error { return nil }, zap.NewNop())
	of := []struct {
		log     *audit.Log
		handler http.Handler
	}{{b.audit, api.New(b.config)}, {other.audit, api.New(other.config)}}
	ctx, cancel := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	for _, plane := range of {
		running.Go(func() { _ = plane.log.Run(ctx) }) // entries are moved to the ledger meanwhile
	}
	write := func(i int) {
		plane, name := of[i%2], fmt.Sprintf("n%d", i)
		if i%4 < 2 {
			if err := plane.log.Audit(t.Context(), adminapi.AuditEntry{Action: "sign_in", Name: name}); err != nil {
				t.Error(err)
			}
			return
		}
		put := func() int {
			r := httptest.NewRequest(http.MethodPut, "/admin/v1/organizations/"+name, strings.NewReader(`{"name":"`+name+`"}`))
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			plane.handler.ServeHTTP(w, r)
			return w.Code
		}
		for code := put(); code >= 300; code = put() { // so many at once may have to try again
			if code != http.StatusConflict && code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests {
				t.Error(code)
				return
			}
		}
	}
	for i := range 200 {
		writing.Go(func() { write(i) })
	}
	written := make(chan struct{})
	go func() { defer close(written); writing.Wait() }()
	for writing := true; writing; {
		found := b.verified(t)
		require.True(t, found.Intact, "while it grows: %+v %+v", found, found.Break)
		select {
		case <-written:
			writing = false
		default:
		}
	}
	b.ship(t, other.audit)
	cancel()
	running.Wait()
	b.requireIntact(t, 200)
	names := map[string]bool{}
	for i, e := range b.kept() {
		require.Equal(t, int64(i+1), e.Sequence)
		names[e.Name] = true
	}
	require.Len(t, names, 200, "no entry is lost")
}

// What is staged takes long; sign-ins go on meanwhile, and it is done all the same.
func TestAStagedChangeIsInTheChain(t *testing.T) {
	b := newBench(t)
	other := audit.New(b.server.Client(t), b.ledger, b.ledger, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	var signing sync.WaitGroup
	signed := int64(0)
	signing.Go(func() {
		for ctx.Err() == nil {
			if err := other.Audit(t.Context(), adminapi.AuditEntry{Action: "sign_in_failed"}); err != nil {
				t.Error(err)
				return
			}
			signed++
		}
	})
	staged := b.etcd.Watch(t.Context(), "/modelgate/staged/", clientv3.WithPrefix())
	const many = 2000 // more than one transaction takes
	var objects []configv1.Object
	for i := range many {
		objects = append(objects, &configv1.Organization{Name: fmt.Sprintf("o%d", i), DisplayName: strings.Repeat("x", 250)})
	}
	_, err := b.client.Apply(t.Context(), objects, false)
	cancel()
	signing.Wait()
	require.NoError(t, err)
	<-staged
	b.requireIntact(t, many+signed)
	b.ship(t)
	b.requireIntact(t, many+signed)
	left, err := b.etcd.Get(t.Context(), "/modelgate/audit.hold")
	require.NoError(t, err)
	require.Empty(t, left.Kvs)
}

// A backup that is restored has no head: the ledger, which was saved later, may have more.
func TestTheChainGoesOnWhereEtcdHasNoHead(t *testing.T) {
	b := newBench(t)
	b.enter(t, 5)
	b.ship(t)
	_, err := b.etcd.Delete(t.Context(), configstore.AuditHeadKey)
	require.NoError(t, err)
	b.requireBreak(t, "head", 5)
	b.enter(t, 2)
	b.requireIntact(t, 7)
	_, err = b.etcd.Delete(t.Context(), configstore.AuditHeadKey) // and of two the newest are in etcd
	require.NoError(t, err)
	b.enter(t, 1)
	b.requireIntact(t, 8)
	_, err = b.etcd.Delete(t.Context(), configstore.AuditHeadKey)
	require.NoError(t, err)
	again := audit.New(b.etcd, b.ledger, b.ledger, zap.NewNop()) // a control plane that starts
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = again.Run(ctx) }()
	require.Eventually(t, func() bool { return b.verified(t).Intact }, 20*time.Second, 10*time.Millisecond)
	cancel()
	<-done
	b.requireIntact(t, 8)
}

// What was deleted while etcd was full is outside the chain, which vouches for it as soon as it can.
func TestTheChainVouchesForWhatAFullEtcdDidNotTake(t *testing.T) {
	b := newBenchOn(t, etcdtest.WithQuota(t, 4<<20))
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "stolen"})
	require.NoError(t, err)
	b.fill(t)
	require.NoError(t, b.client.Delete(t.Context(), configv1.KeyKind(), made.ID))
	found := b.verified(t)
	require.Equal(t, int64(1), found.Outside)
	require.Nil(t, found.Break)

	b.empty(t)
	b.enter(t, 1)
	b.ship(t)
	found = b.requireIntact(t, 3)
	require.Equal(t, []int64{4, 1}, []int64{found.Entries, found.Vouched})
	b.enter(t, 1)
	b.requireIntact(t, 4)
}

// The real ledger gives back what was hashed, whatever people send.
func TestWhatTheLedgerKeepsHasItsHash(t *testing.T) {
	b := newBench(t)
	book := withLedger(t, b)
	b.audit = audit.New(b.etcd, book, book, zap.NewNop())
	b.config.Audit = b.audit
	for _, text := range []string{"a\x00b\xff", "<&>\u2028\u2029\"", strings.Repeat("é", 1000),
		"\r\n\t\x7f", "\U0001F600"} {
		require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: text, Role: text, Address: text,
			Action: text, Kind: text, Name: text, Diff: strings.Repeat(text, 100), RequestID: text,
			At: time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.FixedZone("", 3600))}))
	}
	b.requireIntact(t, 5)
	b.ship(t)
	b.requireIntact(t, 5)
}
