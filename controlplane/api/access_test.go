package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/certs"
)

// endpoints are all that is served, each with the scope that it takes.
func endpoints() []struct {
	method, path, body string
	scope              authz.Scope
} {
	type endpoint = struct {
		method, path, body string
		scope              authz.Scope
	}
	all := []endpoint{
		{"POST", "/admin/v1/apply", `[]`, authz.ConfigWrite},
		{"POST", "/admin/v1/apply", `{"kind":"Key","name":"x"}`, authz.KeysWrite},
		{"POST", "/admin/v1/apply", `{"kind":"Account","name":"x"}`, authz.AdminsWrite},
		{"POST", "/admin/v1/apply?prune=all&dry_run=true", `[]`, authz.ConfigWrite},
		{"GET", "/admin/v1/export", ``, authz.ConfigRead},
		{"POST", "/admin/v1/keys/x/rotate", `{}`, authz.KeysWrite},
		{"GET", "/admin/v1/keys/x/consumption", ``, authz.KeysRead},
		{"POST", "/admin/v1/providers/x/test", ``, authz.ConfigWrite},
		{"POST", "/admin/v1/providers/test", `{}`, authz.ConfigWrite},
		{"GET", "/admin/v1/usage/completions?start_time=1", ``, authz.UsageRead},
		{"GET", "/v1/organization/usage/completions?start_time=1", ``, authz.UsageRead},
		{"GET", "/v1/organization/costs?start_time=1", ``, authz.UsageRead},
		{"GET", "/admin/v1/summary", ``, authz.UsageRead},
		{"GET", "/admin/v1/requests/x/bodies", ``, authz.BodiesRead},
		{"DELETE", "/admin/v1/requests/x/bodies", ``, authz.BodiesDelete},
		{"DELETE", "/admin/v1/bodies?key=x", ``, authz.BodiesDelete},
		{"POST", "/admin/v1/erasures", `{"user":"x"}`, authz.Everything},
		{"GET", "/admin/v1/approvals", ``, authz.KeysRead},
		{"GET", "/admin/v1/approvals/x", ``, authz.KeysRead},
		{"DELETE", "/admin/v1/approvals/x", ``, authz.KeysWrite},
		{"POST", "/admin/v1/approvals/x/approve", ``, authz.AdminsWrite},
		{"POST", "/admin/v1/approvals/x/reject", `{}`, authz.AdminsWrite},
		{"GET", "/admin/v1/audit", ``, authz.AuditRead},
		{"GET", "/admin/v1/audit/verify", ``, authz.AuditRead},
		{"GET", "/admin/v1/audit/sinks", ``, authz.AuditRead},
		{"POST", "/admin/v1/apply", `{"kind":"AuditSink","name":"x"}`, authz.Everything},
		{"POST", "/admin/v1/rollback/auditsinks/x?revision=1", ``, authz.Everything},
		{"POST", "/admin/v1/rollback?revision=1", ``, authz.ConfigWrite},
		{"POST", "/admin/v1/rollback/providers/x?revision=1", ``, authz.ConfigWrite},
		{"POST", "/admin/v1/rollback/keys/x?revision=1", ``, authz.KeysWrite},
		{"GET", "/admin/v1/history/providers/x", ``, authz.AuditRead},
		{"POST", "/admin/v1/keys", `{}`, authz.KeysWrite},
		{"POST", "/admin/v1/admintokens", `{}`, authz.AdminsWrite},
		{"GET", "/admin/v1/usage/costs?start_time=1", ``, authz.UsageRead},
		{"POST", "/admin/v1/policies/test", `{}`, authz.UsageRead},
		{"GET", "/admin/v1/series", ``, authz.UsageRead},
		{"GET", "/admin/v1/key-traffic", ``, authz.UsageRead},
		{"GET", "/admin/v1/cache", ``, authz.UsageRead},
		{"GET", "/admin/v1/budgets", ``, authz.UsageRead},
		{"GET", "/admin/v1/attention", ``, authz.StatusRead},
		{"GET", "/admin/v1/catalogue", ``, authz.ConfigRead},
		{"GET", "/admin/v1/requests", ``, authz.UsageRead},
		{"GET", "/admin/v1/requests/x", ``, authz.UsageRead},
		{"GET", "/admin/v1/outcomes", ``, authz.UsageRead},
		{"GET", "/admin/v1/findings", ``, authz.UsageRead},
		{"GET", "/admin/v1/health", ``, authz.StatusRead},
		{"GET", "/admin/v1/incidents", ``, authz.StatusRead},
		{"GET", "/admin/v1/incidents/x", ``, authz.StatusRead},
		{"POST", "/admin/v1/incidents/x", `{"acknowledge":true}`, authz.ConfigWrite},
		{"GET", "/admin/v1/dataplane", ``, authz.StatusRead},
		{"GET", "/admin/v1/alerts", ``, authz.StatusRead},
		{"GET", "/admin/v1/alerts/history", ``, authz.StatusRead},
		{"POST", "/admin/v1/alerts/x/test", ``, authz.ConfigWrite},
		{"POST", "/admin/v1/identityproviders/x/test", ``, authz.AdminsWrite},
		{"GET", "/admin/v1/batches", ``, authz.JobsRead},
		{"GET", "/admin/v1/batches/x", ``, authz.JobsRead},
		{"GET", "/admin/v1/batches/x/failures", ``, authz.JobsRead},
		{"GET", "/admin/v1/batches/x/files/output", ``, authz.BodiesRead},
		{"POST", "/admin/v1/batches/x/cancel", ``, authz.JobsWrite},
		{"GET", "/admin/v1/quotas", ``, authz.JobsRead},
		{"GET", "/admin/v1/fine_tuning/jobs", ``, authz.JobsRead},
		{"GET", "/admin/v1/fine_tuning/jobs/x", ``, authz.JobsRead},
		{"GET", "/admin/v1/fine_tuning/jobs/x/events", ``, authz.JobsRead},
	}
	for _, k := range configv1.Kinds() {
		read, write := authz.ConfigRead, authz.ConfigWrite
		switch k.Name {
		case "Key":
			read, write = authz.KeysRead, authz.KeysWrite
		case "Account", "AdminToken", "IdentityProvider", "IdentityGroup", "TokenIssuer", "CertificateIssuer":
			read, write = authz.AdminsRead, authz.AdminsWrite
		case "AuditSink", "Retention", "ApprovalRule":
			write = authz.Everything
		}
		path := "/admin/v1/" + k.Plural
		all = append(all, endpoint{"GET", path, "", read}, endpoint{"GET", path + "/x", "", read},
			endpoint{"POST", path, `{"name":""}`, write},
			endpoint{"PUT", path + "/x", `{"name":"y"}`, write}, endpoint{"DELETE", path + "/x", "", write})
	}
	return all
}

func TestEveryEndpointTakesItsScope(t *testing.T) {
	b := newBench(t)
	withLedger(t, b)
	handler := api.New(b.config)
	ask := func(p *authz.Principal, method, path, body string) answer {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if p != nil {
			r = r.WithContext(authz.WithPrincipal(r.Context(), *p))
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return answer{w.Code, w.Header(), w.Body.String()}
	}
	callers := map[string]*authz.Principal{"stranger": nil, "nobody": {Name: "nobody"}}
	for _, role := range configv1.Roles() {
		callers[role.String()] = &authz.Principal{Name: role.String(), Scopes: authz.ScopesOf(role)}
	}
	for _, role := range configv1.TenantRoles() {
		of := member("acme", "", role)
		callers[of.Role] = &of
	}
	for _, scope := range configv1.Scopes() {
		callers[scope] = &authz.Principal{Name: scope, Scopes: []authz.Scope{authz.Scope(scope)}}
	}
	for name, caller := range callers {
		for _, e := range endpoints() {
			if (strings.Contains(e.path, "/history/") || strings.HasSuffix(e.path,
				"/policies/test")) && caller != nil && !caller.May(authz.ConfigRead) {
				continue // it takes both scopes
			}
			a := ask(caller, e.method, e.path, e.body)
			what := fmt.Sprintf("%s: %s %s %s: %d %s", name, e.method, e.path, e.body, a.status, a.body)
			switch {
			case caller == nil:
				require.Equal(t, 401, a.status, what)
			case !rowOf(t, e.method, e.path, e.scope).For(*caller):
				require.Equal(t, 403, a.status, what)
				require.Contains(t, a.body, `"code":"insufficient_permissions"`, what)
				if !caller.Tenant.IsAll() {
					continue // which may name the tenant
				}
				if !strings.HasSuffix(e.path, "/apply") { // which may name the first that would let the caller in at all
					require.Contains(t, a.body, string(e.scope), what)
				}
			case !caller.Tenant.IsAll() && e.method != "GET": // what is given is not the tenant's
				require.NotContains(t, []int{200, 201, 401, 405, 500, 503}, a.status, what)
			default:
				require.NotContains(t, []int{401, 403, 405, 500, 503}, a.status, what)
			}
		}
	}
	require.Subset(t, authz.ScopesOf(configv1.Role_OPERATOR), authz.ScopesOf(configv1.Role_VIEWER))
	require.NotContains(t, authz.ScopesOf(configv1.Role_OPERATOR), authz.AdminsWrite)
}

func (b *bench) makeToken(t *testing.T, body string) adminapi.NewToken {
	t.Helper()
	a, made := b.do(t, "POST", "/admin/v1/admintokens", body), adminapi.NewToken{}
	require.Equal(t, 201, a.status, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &made))
	return made
}

func as(token string) string { return "Authorization: Bearer " + token }

func TestTokenLivesFromItsCreationToItsDeletion(t *testing.T) {
	b := newBench(t)
	made := b.makeToken(t, `{"display_name":"ci","scopes":["config:read"]}`)
	require.Equal(t, 200, b.do(t, "GET", "/admin/v1/providers", "", as(made.Token)).status)
	requireError(t, b.do(t, "PUT", "/admin/v1/providers/a", `{"name":"a","vendor":"echo"}`, as(made.Token)), 403,
		"insufficient_permissions", "config:write")
	raw, err := b.etcd.Get(t.Context(), "/modelgate/v1/admintokens/"+made.ID)
	require.NoError(t, err)
	require.NotContains(t, string(raw.Kvs[0].Value), made.Token)
	shown := b.do(t, "GET", "/admin/v1/admintokens", "").body
	require.NotContains(t, shown, made.Token)
	require.NotContains(t, shown, `"hash"`)
	for _, wrong := range []string{made.Token[:len(made.Token)-1], made.Token + "x", strings.TrimPrefix(made.Token, "mg"),
		"mgadm_01JD3T9Q8H6R5W4Z2Y0X9V8N7M.x", "mg../keys.x"} {
		requireError(t, b.do(t, "GET", "/admin/v1/providers", "", as(wrong)), 401, "invalid_admin_token", "")
	}
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/admintokens/"+made.ID, "").status)
	requireError(t, b.do(t, "GET", "/admin/v1/providers", "", as(made.Token)), 401, "invalid_admin_token", "")
}

func TestTokenExpires(t *testing.T) {
	b := newBench(t)
	requireError(t, b.do(t, "POST", "/admin/v1/admintokens",
		`{"display_name":"x","scopes":["*"],"expires_at":"2001-01-01T00:00:00Z"}`), 400, "invalid_value", "future")
	made := b.makeToken(t, `{"display_name":"x","scopes":["*"],"expires_at":"2090-01-01T00:00:00Z"}`)
	require.Equal(t, 200, b.do(t, "GET", "/admin/v1/providers", "", as(made.Token)).status)
	past := b.do(t, "PUT", "/admin/v1/admintokens/"+made.ID, `{"name":"`+made.ID+
		`","scopes":["*"],"expires_at":"2001-01-01T00:00:00Z"}`)
	require.Equal(t, 200, past.status, past.body)
	requireError(t, b.do(t, "GET", "/admin/v1/providers", "", as(made.Token)), 401, "invalid_admin_token", "")
}

func TestBadTokenRequests(t *testing.T) {
	b := newBench(t)
	for body, message := range map[string]string{
		`{"scopes":["*"]}`:                                     "display_name",
		`{"display_name":"x"}`:                                 "scopes",
		`{"display_name":"x","scopes":["everything"]}`:         "scopes[0]",
		`{"display_name":"x","scopes":["*"],"name":"adm_1"}`:   "name",
		`{"display_name":"x","scopes":["*"],"hash":"AAAA"}`:    "hash",
		`{"display_name":"x","scopes":"*"}`:                    "scopes",
		`{"display_name":["x"],"scopes":["*"]}`:                "display_name",
		`{"display_name":"x","scopes":["*"],"hint":"abcd"}`:    "hint",
		`{"display_name":"x","scopes":["*"],"created_at":"x"}`: "created_at",
	} {
		a := b.do(t, "POST", "/admin/v1/admintokens", body)
		require.Equal(t, 400, a.status, body)
		require.Contains(t, a.body, message, body)
	}
}

func TestNobodyGivesRightsThatAreNotTheirs(t *testing.T) {
	b := newBench(t)
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/accounts",
		`{"name":"boss","role":"OWNER","password":"correct horse battery"}`).status)
	boss := b.makeToken(t, `{"display_name":"all","scopes":["*"]}`)
	of := b.makeToken(t, `{"display_name":"admins","scopes":["admins:write","keys:read"]}`).Token
	pair, err := certs.Ensure(t.TempDir(), nil, time.Now())
	require.NoError(t, err)
	ca, err := json.Marshal(string(pair.Certificate))
	require.NoError(t, err)
	for _, tc := range []struct{ method, path, body string }{
		{"PUT", "/admin/v1/certificateissuers/i", `{"name":"i","ca":` + string(ca) +
			`,"bindings":[{"key":"key_1","identity":"a.test"}]}`},
		{"POST", "/admin/v1/admintokens", `{"display_name":"x","scopes":["*"]}`},
		{"POST", "/admin/v1/admintokens", `{"display_name":"x","scopes":["keys:read","config:write"]}`},
		{"POST", "/admin/v1/accounts", `{"name":"x","role":"VIEWER"}`},
		{"PUT", "/admin/v1/accounts/boss", `{"name":"boss","role":"OWNER","password":"another good password"}`},
		{"DELETE", "/admin/v1/accounts/boss", ``},
		{"DELETE", "/admin/v1/admintokens/" + boss.ID, ``},
		{"PUT", "/admin/v1/admintokens/" + boss.ID, `{"name":"` + boss.ID + `","scopes":["keys:read"]}`},
		{"POST", "/admin/v1/apply", `{"kind":"Account","name":"y","role":"OWNER"}`},
		{"PUT", "/admin/v1/identityproviders/i", `{"name":"i",` + anIssuer + `,"client_id":"c","default_role":"VIEWER"}`},
		{"PUT", "/admin/v1/tokenissuers/i", `{"name":"i",` + anIssuer + `,"audiences":["a"],"bindings":[{"key":"key_1"}]}`},
	} {
		requireError(t, b.do(t, tc.method, tc.path, tc.body, as(of)), 403, "insufficient_permissions", "you do not")
	}
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/admintokens", `{"display_name":"x","scopes":["keys:read"]}`,
		as(of)).status)
}

const anIssuer = `"issuer":"https://login.example"`

func TestAnAdminGivesNoMoreThanAnAdminHas(t *testing.T) {
	b := newBench(t)
	handler := api.New(b.config)
	ask := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r = r.WithContext(authz.WithPrincipal(r.Context(), authz.Principal{Name: "adam",
			Scopes: authz.ScopesOf(configv1.Role_ADMIN)}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"accounts/a", `{"name":"a","role":"ADMIN"}`, 201}, {"accounts/b", `{"name":"b","role":"OWNER"}`, 403},
		{"accounts/c", `{"name":"c","role":"VIEWER","read_bodies":true}`, 403},
		{"identityproviders/i", `{"name":"i",` + anIssuer + `,"client_id":"c","default_role":"ADMIN"}`, 201},
		{"identityproviders/o", `{"name":"o",` + anIssuer + `,"client_id":"c","roles":[{"group":"g","role":"OWNER"}]}`, 403},
		{"tokenissuers/t", `{"name":"t",` + anIssuer + `,"audiences":["a"],"bindings":[{"key":"key_1"}]}`, 201},
	} {
		status, body := ask("PUT", "/admin/v1/"+c.path, c.body)
		require.Equal(t, c.status, status, "%s: %s", c.path, body)
	}
	status, body := ask("POST", "/admin/v1/admintokens", `{"display_name":"x","scopes":["*"]}`)
	require.Equal(t, 403, status, body)
}

func TestOnlyWhoMayDoEverythingHasFilesOfTheControlPlaneRead(t *testing.T) {
	b := newBench(t)
	operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:read","config:write"]}`).Token)
	for source, status := range map[string]int{`"file":"/etc/modelgate/admin-token"`: 403, `"env":"MODELGATE_TOKEN"`: 403,
		`"vault":{"path":"secret/data/openai","field":"key"}`: 403, `"env":"PGPASSWORD"`: 403, `"env":"OTEL_EXPORTER_OTLP_HEADERS"`: 403, `"env":"OPENAI_API_KEY"`: 200,
		`"value":"sk-x"`: 200} {
		a := b.do(t, "PUT", "/admin/v1/providers/p?dry_run=true", `{"name":"p","vendor":"openai","credential":{`+source+`}}`,
			operator)
		require.Equal(t, status, a.status, source+a.body)
	}
	const byFile = `{"name":"p","vendor":"openai","credential":{"file":"/run/secrets/openai"}}`
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/providers/p", byFile).status)
	changed := b.do(t, "PUT", "/admin/v1/providers/p", strings.Replace(byFile, `"vendor"`, `"models":["a"],"vendor"`, 1),
		operator)
	require.Equal(t, 200, changed.status, "what is stored stays: %s", changed.body)
	requireError(t, b.do(t, "PUT", "/admin/v1/providers/p", strings.Replace(byFile, "openai\"}", "other\"}", 1),
		operator), 403, "insufficient_permissions", "scope *")
}

func TestOnlyWhoMayDoEverythingSendsTheGatewayToItsOwnSockets(t *testing.T) {
	b := newBench(t)
	operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:read","config:write"]}`).Token)
	const local = `{"name":"p","vendor":"openai","endpoint":"unix:///run/etcd.sock","credential":{"value":"sk-secret"}}`
	for path, body := range map[string]string{
		"providers/p":         local,
		"providers/p?":        strings.Replace(local, "unix", "UNIX", 1),
		"jobservices/default": `{"name":"default","address":"unix:///run/etcd.sock","listen":"unix:///run/internal.sock"}`,
		// Whether the file is there would be told by the object's error.
		"certificates/default": `{"name":"default","chain_file":"/etc/modelgate/pepper","private_key":{"value":"x"}}`,
		"jobservices/default?": `{"name":"default","address":"jobs:9090","listen":"0.0.0.0:8444","tls":{"certificate":"internal","server_name":"jobs","ca_file":"/etc/passwd"}}`,
	} {
		requireError(t, b.do(t, "PUT", "/admin/v1/"+path, body, operator), 403, "insufficient_permissions", "scope *")
	}
	requireError(t, b.do(t, "POST", "/admin/v1/apply", `[{"kind":"Provider",`+local[1:]+`]`, operator), 403,
		"insufficient_permissions", "scope *")
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/providers/p", local).status)
	changed := b.do(t, "PUT", "/admin/v1/providers/p", strings.Replace(local, `"vendor"`, `"models":["a"],"vendor"`, 1),
		operator)
	require.Equal(t, 200, changed.status, "what is stored stays: %s", changed.body)
}

func TestStoredCredentialDoesNotMoveWithTheEndpoint(t *testing.T) {
	b := newBench(t)
	operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:read","config:write"]}`).Token)
	for source, kept := range map[string]string{
		`"file":"/run/secrets/openai"`:                        `"file":"/run/secrets/openai"`,
		`"vault":{"path":"secret/data/openai","field":"key"}`: `"vault":{"path":"secret/data/openai","field":"key"}`,
		`"env":"MODELGATE_OPENAI"`:                            `"env":"MODELGATE_OPENAI"`, `"value":"sk-secret"`: `"sealed":"[redacted]"`,
	} {
		stored := `{"name":"p","vendor":"openai","endpoint":"https://vendor.example","credential":{` + source + `}}`
		require.Less(t, b.do(t, "PUT", "/admin/v1/providers/p", stored).status, 300)
		moved := strings.NewReplacer("vendor.example", "evil.example", source, kept).Replace(stored)
		requireError(t, b.do(t, "PUT", "/admin/v1/providers/p", moved, operator), 403, "insufficient_permissions", "scope *")
		anew := strings.Replace(moved, kept, `"value":"sk-mine"`, 1)
		require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p?dry_run=true", anew, operator).status)
		require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p?dry_run=true", moved).status, "root may")
	}
}

func TestWrongTokensAreSlowedByAddress(t *testing.T) {
	b := newBench(t)
	// What guesses nothing does not count.
	for range 25 {
		require.Equal(t, 401, b.do(t, "GET", "/admin/v1/providers", "", "Authorization: ").status)
	}
	for i := range 20 {
		require.Equal(t, 401, b.do(t, "GET", "/admin/v1/providers", "", as(fmt.Sprintf("guess-%d", i))).status)
	}
	for _, authorization := range []string{as("guess-21"), as(token), "Authorization: "} {
		a := b.do(t, "GET", "/admin/v1/providers", "", authorization)
		requireError(t, a, 429, "too_many_failed_attempts", "Wait")
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
	// Another address, and the dashboard's own people, are not concerned.
	handler := api.New(b.config)
	r := httptest.NewRequest(http.MethodGet, "/admin/v1/providers", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code)
}

func TestAnswersAreKeptNowhereAndNamed(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/admin/v1/providers", "/admin/v1/nothing", "/admin/v1/openapi.json"} {
		a := b.do(t, "GET", path, "")
		require.Equal(t, "no-store", a.header.Get("Cache-Control"), path)
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), path)
	}
	require.Regexp(t, "^req_", b.do(t, "GET", "/admin/v1/providers", "").header.Get("X-Request-Id"))
}

func TestKeyRotation(t *testing.T) {
	b := newBench(t)
	made, err := b.client.CreateKey(t.Context(),
		adminapi.KeyRequest{DisplayName: "ci",
			Limits: []adminapi.Limit{{Domain: "requests", Unit: "MINUTE", RequestsPerUnit: 5}}})
	require.NoError(t, err)
	stored := func() *configv1.Key {
		e, err := b.store.Get(t.Context(), configv1.KindOf((*configv1.Key)(nil)), made.ID)
		require.NoError(t, err)
		require.NoError(t, e.Err)
		return e.Object.(*configv1.Key)
	}
	require.EqualValues(t, 5, stored().GetLimits()[0].GetRequestsPerUnit())
	first := stored().GetHash()

	dry := b.do(t, "POST", "/admin/v1/keys/"+made.ID+"/rotate?dry_run=true", `{"grace_seconds":60}`)
	require.Equal(t, 200, dry.status)
	require.NotContains(t, dry.body, "sk-mg-")
	require.Contains(t, dry.body, "retired")
	require.Equal(t, first, stored().GetHash())

	again, err := b.client.RotateKey(t.Context(), made.ID, adminapi.RotateRequest{Grace: 60})
	require.NoError(t, err)
	require.Equal(t, made.ID, again.ID)
	require.NotEqual(t, made.Key, again.Key)
	hash := b.hasher.Hash(again.Key)
	require.Equal(t, hash[:], stored().GetHash())
	require.Equal(t, first, stored().GetRetired().GetHash())
	require.WithinDuration(t, time.Now().Add(time.Minute), stored().GetRetired().GetExpiresAt().AsTime(), 10*time.Second)
	shown := b.do(t, "GET", "/admin/v1/keys/"+made.ID, "")
	require.NotContains(t, shown.body, `"hash"`)
	require.Contains(t, shown.body, `"retired":{"hint":`)
	same := b.do(t, "PUT", "/admin/v1/keys/"+made.ID, shown.body)
	require.Equal(t, shown.header.Get("ETag"), same.header.Get("ETag"),
		"what was read can be sent again and changes nothing: %s", same.body)

	without := b.do(t, "PUT", "/admin/v1/keys/"+made.ID, `{"name":"`+made.ID+`","display_name":"ci"}`)
	require.Equal(t, 200, without.status, without.body)
	require.Nil(t, stored().GetRetired(), "left out, the grace is over")
	_, err = b.client.RotateKey(t.Context(), made.ID, adminapi.RotateRequest{})
	require.NoError(t, err)
	require.Nil(t, stored().GetRetired(), "without grace the old one stops at once")

	requireError(t, b.do(t, "POST", "/admin/v1/keys/"+made.ID+"/rotate", `{"grace_seconds":2592001}`), 400,
		"invalid_value", "2592000")
	requireError(t, b.do(t, "POST", "/admin/v1/keys/"+made.ID+"/rotate", `{"grace_seconds":-1}`), 400, "invalid_value",
		"")
	requireError(t, b.do(t, "POST", "/admin/v1/keys/"+made.ID+"/rotate", `{"grace":1}`), 400, "invalid_json", "grace")
	requireError(t, b.do(t, "POST", "/admin/v1/keys/"+made.ID+"/rotate", ``, `If-Match: "1"`), 412, "precondition_failed",
		"")
	requireError(t, b.do(t, "POST", "/admin/v1/keys/key_none/rotate", ``), 404, "not_found", "key_none")
}

func TestListIsPagedSearchedAndFiltered(t *testing.T) {
	b := newBench(t)
	var ids []string
	for i := range 7 {
		made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: fmt.Sprintf("Key number-%d", i),
			Organization: []string{"a", "b"}[i%2]}, adminapi.CreateMissing)
		require.NoError(t, err)
		ids = append(ids, made.ID)
	}
	slices.Sort(ids)
	kind := configv1.KindOf((*configv1.Key)(nil))
	names := func(o adminapi.ListOptions) (found []string) {
		for {
			page, err := b.client.ListPage(t.Context(), kind, o)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Items), o.Limit)
			for _, item := range page.Items {
				found = append(found, item.Name)
			}
			if o.After = page.Next; o.After == "" {
				return found
			}
		}
	}
	check := func() {
		require.Equal(t, ids, names(adminapi.ListOptions{Limit: 3}))
		require.Len(t, names(adminapi.ListOptions{Limit: 2, Filters: map[string]string{"organization": "a"}}), 4)
		require.Len(t, names(adminapi.ListOptions{Limit: 2, Query: "KEY Number-3"}), 1)
		require.Len(t, names(adminapi.ListOptions{Limit: 1, Query: "key", Filters: map[string]string{"organization": "b",
			"disabled": "false"}}), 3)
		require.Empty(t, names(adminapi.ListOptions{Limit: 1, Query: "key", Filters: map[string]string{"disabled": "true"}}))
		require.Equal(t, ids[2:3], names(adminapi.ListOptions{Limit: 9, Query: strings.ToLower(ids[2])}))
	}
	check()
	// The same out of what the control plane has read, in which one key is gone by now.
	entries, err := b.store.List(t.Context(), kind)
	require.NoError(t, err)
	keys := map[string]configv1.Object{"key_gone": &configv1.Key{Name: "key_gone", DisplayName: "key number-3"}}
	for _, e := range entries {
		keys[e.Name] = e.Object
	}
	b.plane.keys = func() (int64, map[string]configv1.Object) { return 1, keys }
	check()
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "q=%00", "after=%01", "%zz"} {
		require.Equal(t, 400, b.do(t, "GET", "/admin/v1/keys?"+query, "").status, query)
	}
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	b := newBench(t)
	o := &configv1.Project{Name: "org/p", DisplayName: "P"}
	item, err := b.client.Create(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, item.Status.Revision)
	_, err = b.client.Create(t.Context(), o)
	require.ErrorContains(t, err, "already exists")
	a := b.do(t, "POST", "/admin/v1/projects", `{"name":"org/q"}`)
	require.Equal(t, "/admin/v1/projects/org/q", a.header.Get("Location"))
	require.Equal(t, 304, b.do(t, "GET", "/admin/v1/projects/org/q", "", "If-None-Match: "+a.header.Get("ETag")).status)
	dry := b.do(t, "DELETE", "/admin/v1/projects/org/q?dry_run=true", "")
	require.Contains(t, dry.body, `"action":"deleted"`)
	require.Equal(t, 200, b.do(t, "GET", a.header.Get("Location"), "").status)
	requireError(t, b.do(t, "PUT", "/admin/v1/projects/org/q?dry_run=maybe", `{"name":"org/q"}`), 400, "invalid_value",
		"dry_run")
}
