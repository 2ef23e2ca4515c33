package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
)

// rollback makes one object, or with an empty path all, what it was.
func (b *bench) rollback(t *testing.T, path string, revision int64, headers ...string) answer {
	t.Helper()
	if path != "" {
		path = "/" + path
	}
	return b.do(t, http.MethodPost, "/admin/v1/rollback"+path+"?revision="+itoa(revision), "", headers...)
}

// outbox returns the keys of versions that wait in etcd.
func (b *bench) outbox(t *testing.T) *clientv3.GetResponse {
	t.Helper()
	r, err := b.etcd.Get(t.Context(), "/modelgate/versions/", clientv3.WithPrefix())
	require.NoError(t, err)
	return r
}

func TestWhoMayReadHistoryAndRollBack(t *testing.T) {
	b := newBench(t)
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/providers", `{"name":"p","vendor":"echo"}`).status)
	revision := b.versionsOf(t, "providers/p")[0].Revision
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p", `{"name":"p","vendor":"echo","models":["a"]}`).status)
	before := b.stored(t, "providers/p")
	token := func(scopes string) string {
		return as(b.makeToken(t, `{"display_name":"x","scopes":[`+scopes+`]}`).Token)
	}

	viewer := token(`"config:read","keys:read","audit:read","status:read"`)
	require.Equal(t, 200, b.do(t, "GET", "/admin/v1/history/providers/p", "", viewer).status)
	for _, path := range []string{"", "providers/p"} {
		requireError(t, b.rollback(t, path, revision, viewer), 403, "insufficient_permissions", "config:write")
	}
	requireError(t, b.rollback(t, "keys/x", revision, viewer), 403, "insufficient_permissions", "keys:write")
	require.Equal(t, before, b.stored(t, "providers/p"))

	for scopes, missing := range map[string]string{`"config:read"`: "audit:read", `"audit:read"`: "config:read"} {
		for _, query := range []string{"", "?revision=" + itoa(revision)} {
			requireError(t, b.do(t, "GET", "/admin/v1/history/providers/p"+query, "", token(scopes)), 403,
				"insufficient_permissions", missing)
		}
	}
}

func TestRollbackBringsNoKeyBackToLife(t *testing.T) {
	b := newBench(t)
	limited := `{"display_name":"k","limits":[{"domain":"requests","unit":"MINUTE","requests_per_unit":5}]}`
	created := func() (string, int64) {
		t.Helper()
		a := b.do(t, "POST", "/admin/v1/keys", limited)
		require.Equal(t, 201, a.status, a.body)
		var made adminapi.NewKey
		require.NoError(t, json.Unmarshal([]byte(a.body), &made))
		return made.ID, b.versionsOf(t, "keys/"+made.ID)[0].Revision
	}
	revoked, _ := created()
	disabled, revision := created()
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/keys/"+revoked, "").status)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/keys/"+disabled, `{"name":"`+disabled+
		`","display_name":"k","disabled":true,"models":["only-this"]}`).status)
	hash := b.stored(t, "keys/"+disabled)["hash"]
	require.NotEmpty(t, hash)

	requireError(t, b.rollback(t, "keys/"+revoked, revision), 404, "not_found", revoked)
	require.Equal(t, 200, b.rollback(t, "keys/"+disabled, revision).status)
	stored := b.stored(t, "keys/"+disabled)
	require.Equal(t, true, stored["disabled"])
	require.Equal(t, []any{"only-this"}, stored["models"])
	require.Equal(t, hash, stored["hash"])
	require.NotEmpty(t, stored["limits"], "they are what a rollback of a key is for")

	require.Equal(t, 200, b.rollback(t, "", revision).status)
	require.Equal(t, 404, b.do(t, "GET", "/admin/v1/keys/"+revoked, "").status)
	require.Equal(t, stored, b.stored(t, "keys/"+disabled))
	for _, v := range b.ledger.versions {
		require.NotContains(t, string(v.Document), `"hash"`)
	}
}

func TestRollbackDoesNotMoveAStoredCredential(t *testing.T) {
	// Either the credential that is there now would go to the endpoint of then, or that of then would be there again.
	for _, source := range []string{`"value":"sk-theirs"`, `"file":"/run/secrets/openai"`} {
		b := newBench(t)
		operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:write","config:read"]}`).Token)
		at := func(endpoint, source string) string {
			return `{"name":"p","vendor":"openai","endpoint":"https://` + endpoint + `","credential":{` + source + `}}`
		}
		require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/providers/p", at("evil.example", `"value":"sk-mine"`),
			operator).status)
		revision := b.versionsOf(t, "providers/p")[0].Revision
		require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p", at("vendor.example", source)).status)
		before := b.stored(t, "providers/p")
		for _, path := range []string{"", "providers/p"} {
			requireError(t, b.rollback(t, path, revision, operator), 403, "insufficient_permissions", "scope *")
		}
		require.Equal(t, before, b.stored(t, "providers/p"))
		require.Equal(t, 200, b.rollback(t, "providers/p", revision).status, "root may")
	}
}

func TestVersionsOutliveTheProcessAndTheLedger(t *testing.T) {
	b := newBench(t)
	b.ledger.setAway(true)
	var models strings.Builder
	for i := range 900 {
		fmt.Fprintf(&models, `"a-model-of-a-rather-long-name-%d",`, i)
	}
	for i := range 3 {
		a := b.do(t, "PUT", "/admin/v1/providers/p", fmt.Sprintf(`{"name":"p","vendor":"echo","models":[%s"%d"]}`,
			models.String(), i))
		require.Less(t, a.status, 300, "%.500s", a.body)
	}
	requireError(t, b.do(t, "GET", "/admin/v1/history/providers/p", ""), 503, "ledger_unavailable", "")
	waiting := b.outbox(t)
	require.Len(t, waiting.Kvs, 3, "one for each change")
	for _, kv := range waiting.Kvs {
		require.Less(t, len(kv.Value), models.Len()/3, "they are compressed")
	}

	// One process has moved them, and dies before it deletes them; two others find them later.
	b.ledger.setAway(false)
	require.Len(t, b.versionsOf(t, "providers/p"), 3)
	for _, kv := range waiting.Kvs {
		_, err := b.etcd.Put(t.Context(), string(kv.Key), string(kv.Value))
		require.NoError(t, err)
	}
	stop := make(chan struct{})
	for range 2 {
		other := audit.New(b.etcd, b.ledger, b.ledger, zap.NewNop())
		go func() { defer func() { stop <- struct{}{} }(); _ = other.Run(t.Context()) }()
	}
	require.Eventually(t, func() bool { return len(b.outbox(t).Kvs) == 0 }, 10*time.Second, 10*time.Millisecond)
	versions := b.versionsOf(t, "providers/p")
	require.Len(t, versions, 3, "each once")
	for i, v := range versions[1:] {
		require.Less(t, v.Revision, versions[i].Revision)
	}
	require.Equal(t, waiting.Kvs[0].ModRevision, versions[2].Revision)
}

func TestALargeChangeIsOneVersionAndIsRolledBackWhole(t *testing.T) {
	const many = 3000
	long := strings.Repeat("x", 200)
	b := newBench(t)
	apply := func(word string) adminapi.ApplyAnswer {
		t.Helper()
		objects := make([]configv1.Object, many)
		for i := range objects {
			objects[i] = &configv1.Provider{Name: fmt.Sprintf("p%d", i), Vendor: "echo",
				Models: []string{word, long + "1", long + "2", long + "3"}}
		}
		answer, err := b.client.Apply(t.Context(), objects, false)
		require.NoError(t, err)
		return answer
	}
	first := apply("one")
	second := apply("two")
	// What is not staged comes between.
	_, err := b.client.Put(t.Context(), &configv1.Provider{Name: "q", Vendor: "echo"}, 0)
	require.NoError(t, err)
	revisions := map[int64]int{}
	var last int64
	for _, name := range []string{"p0", "p1500", "p2999"} {
		versions := b.versionsOf(t, "providers/"+name)
		require.Len(t, versions, 2)
		require.LessOrEqual(t, versions[1].Revision, first.Revision)
		require.Greater(t, versions[0].Revision, first.Revision)
		require.LessOrEqual(t, versions[0].Revision, second.Revision)
		last = versions[0].Revision
		revisions[last]++
	}
	require.Equal(t, map[int64]int{last: 3}, revisions)
	require.Empty(t, b.outbox(t).Kvs)

	a := b.do(t, "POST", "/admin/v1/rollback?dry_run=true&revision="+itoa(last), "")
	require.Equal(t, 200, a.status)
	require.Equal(t, 1, strings.Count(a.body, `"action":"deleted"`), "q alone")
	require.NotContains(t, a.body, `"action":"updated"`)
	require.Equal(t, 200, b.rollback(t, "", first.Revision).status)
	for _, name := range []string{"p0", "p1500", "p2999"} {
		require.Equal(t, "one", b.stored(t, "providers/"+name)["models"].([]any)[0])
	}
	require.Len(t, b.versionsOf(t, "providers/p1500"), 3)
}

func TestVersionsOfOneRevisionAreOnOnePage(t *testing.T) {
	b := newBench(t)
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/providers", `{"name":"p","vendor":"echo"}`).status)
	made := b.versionsOf(t, "providers/p")[0]
	for i := range 150 {
		v := b.ledger.versions[0]
		v.ID, v.Revision = fmt.Sprintf("v%03d", i), made.Revision+1+int64((i+1)/3)
		require.NoError(t, b.ledger.AppendVersions(t.Context(), []adminapi.Version{v}))
	}
	kind, _ := configv1.FindKind("Provider")
	all, err := b.client.History(t.Context(), kind, "p")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, v := range all {
		require.False(t, seen[v.ID])
		seen[v.ID] = true
	}
	require.Len(t, all, 151)
}
