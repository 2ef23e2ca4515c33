package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/secret"
)

const token = "the-admin-token"

// statuses are the errors that the control plane would report.
type statuses map[string]string

// ObjectError returns what a test has put there.
func (s statuses) ObjectError(kind, name string) string { return s[kind+" "+name] }

// A plane is what a test says of the control plane.
type plane struct {
	statuses
	keys func() (int64, map[string]configv1.Object)
	test func(*configv1.Provider) adminapi.ProviderTest
}

// Keys returns none unless the test has some.
func (p *plane) Keys() (int64, map[string]configv1.Object) {
	if p.keys == nil {
		return 0, nil
	}
	return p.keys()
}

// Chains returns none.
func (*plane) Chains() map[string][]byte { return nil }

// DataPlane returns one client.
func (p *plane) DataPlane(context.Context) adminapi.DataPlane {
	return adminapi.DataPlane{Revision: 7, Clients: []adminapi.DataPlaneClient{{Node: "run", Role: "envoy",
		Version: "1.40.0", Revision: 7, ConnectedAt: time.Unix(1, 0).UTC(), Health: "ok"}}}
}

// TestProvider returns what the test says.
func (p *plane) TestProvider(_ context.Context, o *configv1.Provider) (adminapi.ProviderTest, error) {
	if p.test == nil {
		return adminapi.ProviderTest{OK: true, Message: "It answers.", Status: 200, LatencyMS: 3, Models: 1}, nil
	}
	return p.test(o), nil
}

// A bench is an admin API over a real etcd.
type bench struct {
	url    string
	etcd   *clientv3.Client
	server *etcdtest.Server
	store  *configstore.Store
	sealer *secret.Sealer
	hasher *auth.Hasher
	status statuses
	ledger *memoryLedger
	audit  *audit.Log
	plane  *plane
	jobs   *memoryJobs
	config api.Config
	client *adminapi.Client
}

func newBench(t *testing.T) *bench { t.Helper(); return newBenchOf(t) }

func newBenchOf(t testing.TB) *bench {
	t.Helper()
	return newBenchOn(t, etcdtest.New(t))
}

func newBenchOn(t testing.TB, server *etcdtest.Server) *bench {
	t.Helper()
	root, err := secret.LoadRoot(filepath.Join(t.TempDir(), "root"))
	require.NoError(t, err)
	b := &bench{
		server: server, etcd: server.Client(t), sealer: root.Sealer(), hasher: auth.NewHasher(root.KeyPepper()),
		status: statuses{},
		ledger: &memoryLedger{entries: map[string]adminapi.AuditEntry{}},
	}
	vendors := func(name string) (configv1.Vendor, bool) {
		return configv1.Vendor{}, name == "openai" || name == "echo"
	}
	b.store = configstore.New(b.etcd, func(o configv1.Object) error { return configv1.ValidateStored(o, vendors).Err() },
		zap.NewNop())
	b.plane, b.jobs = &plane{statuses: b.status}, &memoryJobs{}
	b.audit = audit.New(b.etcd, b.ledger, b.ledger, zap.NewNop())
	b.config = api.Config{
		Store: b.store, Sealer: b.sealer, Hasher: b.hasher, Token: secret.New(token), Vendors: vendors,
		Plane: b.plane, Audit: b.audit, Jobs: b.jobs, Batch: b.jobs, Quotas: b.jobs, Version: "v1", Log: zap.NewNop(),
	}
	b.config.Allowed, err = allowed.New(all.Providers(), allowed.Flags{
		Variables: []string{"MODELGATE_OPENAI=*", "TEAM=*", "HOOK=*", "KEY_OF_TLS"},
		Files:     []string{"/run/secrets/=*", "/etc/tls/"}, Vault: []string{"secret/data/=*"},
		Managers: []string{"aws/=*"}, Identities: []string{"aws"}})
	require.NoError(t, err)
	var handler http.Handler
	var once sync.Once // so that a test can change the configuration before its first request
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { handler = api.New(b.config) })
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	b.url = served.URL
	b.client = adminapi.NewClient(served.URL, token, served.Client())
	return b
}

// An answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request, with headers as "Name: value".
func (b *bench) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := answer{resp.StatusCode, resp.Header, string(text)}
	checkAnswer(t, req, a)
	return a
}

// requireError demands an error of OpenAI's shape.
func requireError(t *testing.T, a answer, status int, code, message string) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	var e struct {
		Error map[string]any `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &e), a.body)
	require.Equal(t, code, e.Error["code"])
	require.Contains(t, e.Error["message"], message)
	for _, member := range []string{"message", "type", "param", "code"} {
		require.Contains(t, e.Error, member)
	}
}

func TestEveryPathNeedsTheToken(t *testing.T) {
	b := newBench(t)
	for _, authorization := range []string{"", "Bearer", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x",
		"Bearer \x80"} {
		for _, path := range []string{"/admin/v1/providers", "/admin/v1/nothing", "/else"} {
			a := b.do(t, "GET", path, "", "Authorization: "+authorization)
			requireError(t, a, 401, "invalid_admin_token", "Authorization header")
			require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
		}
	}
	require.Equal(t, 200, b.do(t, "GET", "/admin/v1/providers", "", "Authorization: bearer  "+token).status)
}

func TestObjectLivesThroughPutGetListDelete(t *testing.T) {
	b := newBench(t)
	created := b.do(t, "PUT", "/admin/v1/providers/a", `{"name":"a","vendor":"openai"}`)
	require.Equal(t, 201, created.status, created.body)
	etag := created.header.Get("ETag")
	require.Regexp(t, `^"\d+"$`, etag)

	got := b.do(t, "GET", "/admin/v1/providers/a", "")
	require.Equal(t, 200, got.status)
	require.Equal(t, etag, got.header.Get("ETag"))
	require.JSONEq(t, `{"kind":"Provider","name":"a","vendor":"openai","status":{"revision":`+strings.Trim(etag, `"`)+
		`}}`, got.body)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))

	same := b.do(t, "PUT", "/admin/v1/providers/a", got.body)
	require.Equal(t, 200, same.status, "what was read can be sent again: %s", same.body)
	require.Equal(t, etag, same.header.Get("ETag"), "and changes nothing")

	changed := b.do(t, "PUT", "/admin/v1/providers/a", `{"name":"a","vendor":"echo"}`)
	require.Equal(t, 200, changed.status)
	require.NotEqual(t, etag, changed.header.Get("ETag"))

	list := b.do(t, "GET", "/admin/v1/providers", "")
	require.Contains(t, list.body, `{"items":[{"kind":"Provider","name":"a","vendor":"echo",`)
	require.JSONEq(t, `{"items":[]}`, b.do(t, "GET", "/admin/v1/models", "").body)

	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/providers/a", "").status)
	requireError(t, b.do(t, "DELETE", "/admin/v1/providers/a", ""), 404, "not_found", "Provider a")
	requireError(t, b.do(t, "GET", "/admin/v1/providers/a", ""), 404, "not_found", "Provider a")
}

func TestNamesMayHoldSlashes(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Put(t.Context(), &configv1.Provider{Name: "a", Vendor: "echo"}, 0)
	require.NoError(t, err)
	m := &configv1.Model{Name: "team/ft:x::1/big", Targets: []*configv1.Target{{Provider: "a", Model: "m"}}}
	item, err := b.client.Put(t.Context(), m, 0)
	require.NoError(t, err)
	require.NotNil(t, item.Object.(*configv1.Model).GetCreatedAt())
	item, err = b.client.Get(t.Context(), item.Kind, m.GetName())
	require.NoError(t, err)
	require.Equal(t, m.GetName(), item.Object.GetName())
	require.NoError(t, b.client.Delete(t.Context(), item.Kind, m.GetName()))
}

func TestPreconditions(t *testing.T) {
	b := newBench(t)
	const path, one, two = "/admin/v1/providers/a", `{"name":"a","vendor":"echo"}`, `{"name":"a","vendor":"openai"}`
	requireError(t, b.do(t, "PUT", path, one, `If-Match: "1"`), 412, "precondition_failed", "If-Match")
	requireError(t, b.do(t, "PUT", path, one, `If-Match: *`), 412, "precondition_failed", "If-Match")
	first := b.do(t, "PUT", path, one, "If-None-Match: *")
	require.Equal(t, 201, first.status)
	requireError(t, b.do(t, "PUT", path, two, "If-None-Match: *"), 412, "precondition_failed", "already exists")
	etag := first.header.Get("ETag")
	second := b.do(t, "PUT", path, two, "If-Match: "+etag)
	require.Equal(t, 200, second.status)
	requireError(t, b.do(t, "PUT", path, one, "If-Match: "+etag), 412, "precondition_failed", "If-Match")
	requireError(t, b.do(t, "DELETE", path, "", "If-Match: "+etag), 412, "precondition_failed", "If-Match")
	require.Equal(t, 204, b.do(t, "DELETE", path, "", `If-Match: "0", `+second.header.Get("ETag")).status)
}

func TestBadRequests(t *testing.T) {
	b := newBench(t)
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		code, message      string
	}{
		"unknown kind":     {"GET", "/admin/v1/things", "", 404, "unknown_kind", "Provider, Model"},
		"kind in singular": {"GET", "/admin/v1/provider/a", "", 404, "unknown_kind", ""},
		"unknown path":     {"GET", "/admin/v2", "", 404, "unknown_url", "/admin/v2"},
		"wrong method":     {"PATCH", "/admin/v1/providers/a", "", 405, "method_not_supported", "PUT"},
		"not JSON":         {"PUT", "/admin/v1/providers/a", "x", 400, "invalid_object", "not JSON"},
		"empty":            {"PUT", "/admin/v1/providers/a", "", 400, "invalid_object", "incomplete"},
		"an array":         {"PUT", "/admin/v1/providers/a", "[]", 400, "invalid_object", "mapping"},
		"unknown field": {"PUT", "/admin/v1/providers/a", `{"name":"a","vendor":"echo","x":1}`, 400, "invalid_object",
			"Provider a: x: unknown field"},
		"duplicate": {"PUT", "/admin/v1/providers/a", `{"name":"a","name":"a"}`, 400, "invalid_object",
			"given twice"},
		"another kind": {"PUT", "/admin/v1/providers/a", `{"kind":"Model","name":"a"}`, 400, "invalid_object",
			"must be Provider"},
		"another name": {"PUT", "/admin/v1/providers/a", `{"name":"b","vendor":"echo"}`, 400, "invalid_object",
			"path"},
		"invalid": {"PUT", "/admin/v1/providers/a", `{"name":"a","vendor":"acme","endpoint":"x"}`, 400,
			"invalid_object", "vendor"},
		"missing reference": {"PUT", "/admin/v1/models/m", `{"name":"m","targets":[{"provider":"p","model":"x"}]}`, 400,
			"invalid_object", "Provider p does not exist"},
		"too large": {"PUT", "/admin/v1/providers/a", `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, 413,
			"request_too_large", "1048576"},
		"key from outside": {"PUT", "/admin/v1/keys/key_1", `{"name":"key_1"}`, 400, "invalid_object",
			"POST /admin/v1/keys"},
		"hash from outside": {"PUT", "/admin/v1/keys/key_1", `{"name":"key_1","hash":"` + strings.Repeat("A", 43) + `="}`,
			400, "invalid_object", "hash: cannot be set"},
		"sealed by hand": {"PUT", "/admin/v1/providers/a", `{"name":"a","vendor":"echo","credential":{"sealed":"AQID"}}`,
			400, "invalid_object", "credential.sealed: cannot be written"},
		"nothing to keep": {"PUT", "/admin/v1/providers/a",
			`{"name":"a","vendor":"echo","credential":{"sealed":"[redacted]"}}`, 400, "invalid_object",
			"no credential is stored"},
		"redacted as value": {"PUT", "/admin/v1/providers/a",
			`{"name":"a","vendor":"echo","credential":{"value":"[redacted]"}}`, 400, "invalid_object", "is redacted"},
		"key without a name": {"POST", "/admin/v1/keys", `{}`, 400, "missing", "display_name"},
		"key misspelt": {"POST", "/admin/v1/keys", `{"display_name":"a","Models":["x"]}`, 400, "invalid_object",
			"Models"},
		"key expired": {"POST", "/admin/v1/keys", `{"display_name":"a","expires_at":"2001-01-01T00:00:00Z"}`, 400,
			"invalid_value", "future"},
		"key with odd model": {"POST", "/admin/v1/keys", `{"display_name":"a","models":[""]}`, 400, "invalid_object",
			"models[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			requireError(t, b.do(t, tc.method, tc.path, tc.body), tc.status, tc.code, tc.message)
		})
	}
	snapshot, err := b.store.Snapshot(t.Context())
	require.NoError(t, err)
	require.Empty(t, snapshot.Entries, "nothing of it was stored")
}

func TestErrorsOfObjectsAreShown(t *testing.T) {
	b := newBench(t)
	b.status["Provider a"] = "Envoy refused the cluster"
	item, err := b.client.Put(t.Context(), &configv1.Provider{Name: "a", Vendor: "echo"}, 0)
	require.NoError(t, err)
	require.Equal(t, "Envoy refused the cluster", item.Status.Error)
	_, err = b.etcd.Put(t.Context(), "/modelgate/v1/providers/garbage", "x")
	require.NoError(t, err)

	items, err := b.client.List(t.Context(), item.Kind)
	require.NoError(t, err)
	require.Len(t, items, 2)
	require.Equal(t, "Envoy refused the cluster", items[0].Status.Error)
	require.Equal(t, "garbage", items[1].Name)
	require.Contains(t, items[1].Status.Error, "not a Provider")

	_, err = b.client.Put(t.Context(), &configv1.Provider{Name: "garbage", Vendor: "echo"}, items[1].Status.Revision)
	require.NoError(t, err, "garbage can be replaced")
	_, err = b.etcd.Put(t.Context(), "/modelgate/v1/providers/garbage", "x")
	require.NoError(t, err)
	require.NoError(t, b.client.Delete(t.Context(), item.Kind, "garbage"), "and deleted")
}

func TestStoreThatIsAwayIsA503(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.Stop()
	requireError(t, b.do(t, "GET", "/admin/v1/providers/a", ""), 503, "store_unavailable", "last configuration")
}
