package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

// fill writes to etcd past the gateway until it takes nothing more.
func (b *bench) fill(t *testing.T) {
	t.Helper()
	for i := range 1000 {
		if _, err := b.etcd.Put(t.Context(), "/other/"+string(rune('a'+i)), strings.Repeat("x", 200_000)); err != nil {
			require.ErrorIs(t, err, rpctypes.ErrNoSpace)
			return
		}
	}
	t.Fatal("etcd has taken everything")
}

// empty makes room again after fill.
func (b *bench) empty(t *testing.T) {
	t.Helper()
	deleted, err := b.etcd.Delete(t.Context(), "/other/", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = b.etcd.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	for _, endpoint := range b.etcd.Endpoints() {
		_, err = b.etcd.Defragment(t.Context(), endpoint)
		require.NoError(t, err)
	}
	_, err = b.etcd.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
}

func TestAFullEtcdTakesDeletions(t *testing.T) {
	b := newBenchOn(t, etcdtest.WithQuota(t, 4<<20))
	logged, lines := observer.New(zap.ErrorLevel)
	b.audit = audit.New(b.etcd, b.ledger, b.ledger, zap.New(logged))
	b.config.Audit = b.audit
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "stolen"})
	require.NoError(t, err)
	second, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "stolen too"})
	require.NoError(t, err)
	_, err = b.client.Apply(t.Context(), []configv1.Object{&configv1.Provider{Name: "echo", Vendor: "echo"}}, false)
	require.NoError(t, err)
	b.fill(t)

	refused := b.do(t, "PUT", "/admin/v1/providers/more", `{"kind":"Provider","name":"more","vendor":"echo"}`)
	require.Equal(t, http.StatusInsufficientStorage, refused.status)
	require.Contains(t, refused.body, `"code":"store_full"`)
	require.Equal(t, "10", refused.header.Get("Retry-After"))

	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/keys/"+made.ID, "").status)
	require.Equal(t, 404, b.do(t, "GET", "/admin/v1/keys/"+made.ID, "").status)
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/providers/echo", "").status)
	var said []string
	for _, e := range b.ledger.entries { // and not in etcd, which would not take them
		said = append(said, e.Action+" "+e.Kind+" "+e.Name)
	}
	require.ElementsMatch(t, []string{"delete Key " + made.ID, "delete Provider echo"}, said)
	require.Empty(t, lines.All())

	b.ledger.setAway(true)
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/keys/"+second.ID, "").status, "the ledger is away too")
	require.Equal(t, 2, lines.Len(), "of the entry, and of the version")
	require.Equal(t, second.ID, lines.All()[0].ContextMap()["name"])
	require.Equal(t, 404, b.do(t, "DELETE", "/admin/v1/keys/"+second.ID, "").status)
}

func TestASignInIsAuditedWhereEtcdIsFull(t *testing.T) {
	b := newBenchOn(t, etcdtest.WithQuota(t, 4<<20))
	b.fill(t)
	require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "a", Action: "sign_in"}))
	require.Len(t, b.ledger.entries, 1)
}
