package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/internal/configstore"
)

// audited returns all entries, newest first, over pages.
func (b *bench) audited(t *testing.T, o adminapi.ListOptions) []adminapi.AuditEntry {
	t.Helper()
	if o.Limit == 0 {
		o.Limit = 3
	}
	var all []adminapi.AuditEntry
	for {
		page, err := b.client.Audit(t.Context(), o)
		require.NoError(t, err)
		all = append(all, page.Items...)
		if o.After = page.Next; o.After == "" {
			return all
		}
	}
}

// ship runs the audit log until what waits is in the ledger.
func (b *bench) ship(t *testing.T, logs ...*audit.Log) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, l := range append(logs, b.audit) {
		wg.Go(func() { _ = l.Run(ctx) })
	}
	require.Eventually(t, func() bool { return b.waiting(t) == 0 }, 20*time.Second, 10*time.Millisecond)
	cancel()
	wg.Wait()
}

func (b *bench) waiting(t *testing.T) int64 {
	t.Helper()
	r, err := b.etcd.Get(t.Context(), "/modelgate/audit.chain/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return r.Count
}

func brief(entries []adminapi.AuditEntry) (all []string) {
	for _, e := range entries {
		all = append(all, e.Action+" "+e.Kind+" "+e.Name)
	}
	return all
}

func TestEveryChangeHasAnEntryAndNothingElseHas(t *testing.T) {
	b := newBench(t)
	provider := `{"name":"p","vendor":"openai","credential":{"value":"sk-upstream-1"}}`
	created := b.do(t, "POST", "/admin/v1/providers", provider)
	require.Equal(t, 201, created.status)
	b.do(t, "POST", "/admin/v1/providers?dry_run=true", `{"name":"q","vendor":"echo"}`)
	b.do(t, "PUT", "/admin/v1/providers/p", provider) // no change
	requireError(t, b.do(t, "POST", "/admin/v1/providers", provider), 409, "already_exists", "Provider p")
	requireError(t, b.do(t, "PUT", "/admin/v1/providers/p", provider, `If-Match: "1"`), 412, "precondition_failed", "")
	requireError(t, b.do(t, "PUT", "/admin/v1/providers/p", `{"name":"p","vendor":"acme"}`), 400, "invalid_object",
		"vendor")
	b.do(t, "PUT", "/admin/v1/providers/p?dry_run=true", strings.Replace(provider, "openai", "echo", 1))
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p", strings.Replace(provider, "sk-upstream-1",
		"sk-upstream-2", 1)).status)
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "ci"})
	require.NoError(t, err)
	_, err = b.client.RotateKey(t.Context(), made.ID, adminapi.RotateRequest{Grace: 60})
	require.NoError(t, err)
	_, err = b.client.Apply(t.Context(), []configv1.Object{model("m", "p"), &configv1.Organization{Name: "o"}}, false)
	require.NoError(t, err)
	b.do(t, "DELETE", "/admin/v1/models/m?dry_run=true", "")
	requireError(t, b.do(t, "DELETE", "/admin/v1/providers/p", ""), 409, "in_use", "")
	require.NoError(t, b.client.Delete(t.Context(), configv1.KindOf((*configv1.Model)(nil)), "m"))
	require.NoError(t, b.client.Delete(t.Context(), configv1.KindOf((*configv1.Key)(nil)), made.ID))

	want := []string{
		"delete Key " + made.ID, "delete Model m", "create Organization o", "create Model m", "rotate Key " + made.ID,
		"create Key " + made.ID,
		"update Provider p", "create Provider p",
	}
	entries := b.audited(t, adminapi.ListOptions{})
	require.Equal(t, want, brief(entries))
	last := entries[len(entries)-1]
	require.Equal(t, "root", last.Actor)
	require.Equal(t, "owner", last.Role)
	require.Equal(t, "127.0.0.1", last.Address)
	require.Equal(t, created.header.Get("X-Request-Id"), last.RequestID)
	require.WithinDuration(t, time.Now(), last.At, time.Minute)
	require.Contains(t, last.Diff, "+vendor: openai")
	require.Contains(t, entries[1].Diff, "-name: m")
	text, err := json.Marshal(entries)
	require.NoError(t, err)
	require.NotContains(t, string(text), "sk-upstream")
	require.NotContains(t, string(text), made.Key)

	b.ship(t)
	require.Equal(t, entries, b.audited(t, adminapi.ListOptions{Limit: 2}), "it is the same out of the ledger")
	require.Len(t, b.audited(t, adminapi.ListOptions{Filters: map[string]string{"action": "create"}}), 4)
}

func TestEntriesAreFoundOnTheirWay(t *testing.T) {
	b := newBench(t)
	for i := range 5 {
		require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "ann", Action: "sign_in",
			Name: fmt.Sprint(i)}))
	}
	b.ship(t)
	for i := range 5 {
		require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "bob", Action: "sign_out",
			Name: fmt.Sprint(i)}))
	}
	require.Len(t, b.audited(t, adminapi.ListOptions{Limit: 4}), 10)
	require.Len(t, b.audited(t, adminapi.ListOptions{Filters: map[string]string{"action": "sign_out"}}), 5)
	require.Len(t, b.audited(t, adminapi.ListOptions{Filters: map[string]string{"action": "sign_out", "name": "3"}}), 1)
	require.Empty(t, b.audited(t, adminapi.ListOptions{Filters: map[string]string{"action": "sign_out",
		"start": fmt.Sprint(time.Now().Unix() + 60)}}))
	requireError(t, b.do(t, "GET", "/admin/v1/audit?start=yesterday", ""), 400, "invalid_value", "Unix")
}

func TestEntriesWaitWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ledger.setAway(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.audit.Run(ctx) }()
	for i := range 50 {
		_, err := b.client.Put(t.Context(), &configv1.Provider{Name: fmt.Sprintf("p%d", i), Vendor: "echo"}, 0)
		require.NoError(t, err, "nobody waits for it")
	}
	require.EqualValues(t, 50, b.waiting(t))
	registry := prometheus.NewRegistry()
	require.NoError(t, b.audit.Register(registry))
	backlog := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Equal(t, "modelgate_audit_backlog", families[0].GetName())
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	require.Eventually(t, func() bool { return backlog() == 50 }, 10*time.Second, 10*time.Millisecond)
	b.ledger.setAway(false)
	// Two control planes take them at once.
	b.ship(t, audit.New(b.etcd, b.ledger, b.ledger, zap.NewNop()))
	require.Eventually(t, func() bool { return backlog() == 0 }, 10*time.Second, 10*time.Millisecond)
	cancel()
	<-done
	require.Len(t, b.audited(t, adminapi.ListOptions{Limit: 50}), 50)
}

func TestWhatIsNoEntryIsKeptAndDoesNotBlock(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"garbage", `[{"actor":"nobody"}]`, `{}`} {
		_, err := b.etcd.Put(t.Context(), "/modelgate/audit.chain/00"+text[:1], text)
		require.NoError(t, err)
	}
	require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "a\x00b\xff", Action: "sign_in_failed",
		Name: strings.Repeat("x", 10_000)}))
	b.ship(t)
	entries := b.audited(t, adminapi.ListOptions{})
	require.Len(t, entries, 4)
	require.Equal(t, "a\uFFFDb\uFFFD", entries[0].Actor, "no database takes it otherwise")
	require.Less(t, len(entries[0].Name), 600)
	require.Equal(t, "unreadable", entries[1].Action)
}

func TestChangeAndEntryAreOneTransaction(t *testing.T) {
	b := newBench(t)
	// A crash right after the transaction, and a conflict before it: the handler is cut at every point by a store that
	// fails.
	failing := configstore.New(b.etcd, func(o configv1.Object) error {
		if o.GetName() == "bad" {
			return configv1.Errors{{Object: configv1.Label(o), Message: "is refused at the last moment"}}
		}
		return nil
	}, zap.NewNop())
	b.config.Store = failing
	handler := api.New(b.config)
	put := func(name string) int {
		r := httptest.NewRequest(http.MethodPut, "/admin/v1/providers/"+name,
			strings.NewReader(`{"name":"`+name+`","vendor":"echo"}`))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 400, put("bad"))
	require.Zero(t, b.waiting(t))
	require.Equal(t, 201, put("good"))
	r, err := b.etcd.Get(t.Context(), "/modelgate/audit.chain/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	object, err := b.etcd.Get(t.Context(), "/modelgate/v1/providers/good")
	require.NoError(t, err)
	require.Equal(t, object.Kvs[0].ModRevision, r.Kvs[0].ModRevision,
		"one revision: there is never the one without the other")
}

func TestConcurrentWritersLeaveAnEntryForEachChange(t *testing.T) {
	b := newBench(t)
	other := api.New(func() api.Config { c := b.config; return c }()) // another control plane on the same etcd
	var wg sync.WaitGroup
	var mu sync.Mutex
	changed := 0
	for w := range 4 {
		wg.Go(func() {
			for i := range 6 {
				body := fmt.Sprintf(`{"name":"p","vendor":"echo","models":["%d-%d"]}`, w, i)
				r := httptest.NewRequest(http.MethodPut, "/admin/v1/providers/p", strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer "+token)
				var status int
				if w%2 == 0 {
					rec := httptest.NewRecorder()
					other.ServeHTTP(rec, r)
					status = rec.Code
				} else {
					status = b.do(t, "PUT", "/admin/v1/providers/p", body).status
				}
				mu.Lock()
				if status < 300 {
					changed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, b.audited(t, adminapi.ListOptions{Limit: 100}), changed)
	require.NotZero(t, changed)
}

func TestLargeChangesAreKeptWithinWhatEtcdTakes(t *testing.T) {
	b := newBench(t)
	var objects []configv1.Object
	for i := range 1500 {
		objects = append(objects, &configv1.Organization{Name: fmt.Sprintf("o%d", i), DisplayName: strings.Repeat("x", 200)})
	}
	_, err := b.client.Apply(t.Context(), objects, false)
	require.NoError(t, err)
	require.Len(t, b.audited(t, adminapi.ListOptions{Limit: 1000}), 1500)
	b.ship(t)
	require.Len(t, b.audited(t, adminapi.ListOptions{Limit: 1000}), 1500)
}
