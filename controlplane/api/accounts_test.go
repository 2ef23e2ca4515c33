package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/password"
)

const goodPassword = "correct horse battery"

func (b *bench) account(t *testing.T, name string) *configv1.Account {
	t.Helper()
	e, err := b.store.Get(t.Context(), configv1.KindOf((*configv1.Account)(nil)), name)
	require.NoError(t, err)
	require.NoError(t, e.Err)
	return e.Object.(*configv1.Account)
}

func TestPasswordIsHashedAndNeverShown(t *testing.T) {
	b := newBench(t)
	texts := []string{}
	do := func(method, path, body string) answer {
		a := b.do(t, method, path, body)
		texts = append(texts, a.body)
		return a
	}
	body := `{"name":"ann","role":"OWNER","password":"` + goodPassword + `"}`
	dry := do("POST", "/admin/v1/accounts?dry_run=true", body)
	require.Equal(t, 200, dry.status)
	require.Contains(t, dry.body, `password: '[redacted]'`)
	require.Equal(t, 201, do("POST", "/admin/v1/accounts", body).status)
	require.True(t, password.Verify(b.account(t, "ann").GetPasswordHash(), goodPassword))
	hash := b.account(t, "ann").GetPasswordHash()

	get := do("GET", "/admin/v1/accounts/ann", "")
	require.NotContains(t, get.body, "password")
	same := do("PUT", "/admin/v1/accounts/ann", get.body)
	require.Equal(t, get.header.Get("ETag"), same.header.Get("ETag"), "left out, it stays: %s", same.body)
	require.Equal(t, get.header.Get("ETag"), do("PUT", "/admin/v1/accounts/ann", body).header.Get("ETag"),
		"the same is no change")
	require.Equal(t, hash, b.account(t, "ann").GetPasswordHash())

	const other = "another good password"
	require.Equal(t, 200, do("PUT", "/admin/v1/accounts/ann", strings.Replace(body, goodPassword, other, 1)).status)
	require.True(t, password.Verify(b.account(t, "ann").GetPasswordHash(), other))
	for _, text := range append(texts, b.everything(t), b.do(t, "GET", "/admin/v1/audit", "").body) {
		require.NotContains(t, text, goodPassword)
		require.NotContains(t, text, other)
	}
	for _, text := range append(texts, b.do(t, "GET", "/admin/v1/audit", "").body) {
		require.NotContains(t, text, "argon2id")
	}
}

func TestBadAccounts(t *testing.T) {
	b := newBench(t)
	for body, message := range map[string]string{
		`{"name":"ann","role":"OWNER","password":"short"}`:                                     "at least 12",
		`{"name":"ann","role":"OWNER","password":"[redacted]"}`:                                "is redacted",
		`{"name":"ann","role":"OWNER","password_hash":"$argon2id$v=19$m=1,t=1,p=1$AAAA$AAAA"}`: "cannot be set",
		`{"name":"ann","role":"GOD"}`:                                                          "role",
		`{"name":"ann","role":"OWNER","password":["` + goodPassword + `"]}`:                    "password",
		`{"name":"ann\u0000","role":"OWNER"}`:                                                  "name",
		`{"name":"../keys/x","role":"OWNER"}`:                                                  "name",
		`{"name":"ann' OR '1'='1","role":"OWNER"}`:                                             "name",
	} {
		a := b.do(t, "POST", "/admin/v1/accounts", body)
		require.Equal(t, 400, a.status, body)
		require.Contains(t, a.body, message, body)
		require.NotContains(t, a.body, goodPassword)
	}
}

func TestTheLastOwnerStays(t *testing.T) {
	b := newBench(t)
	put := func(name, more string) answer {
		return b.do(t, "PUT", "/admin/v1/accounts/"+name, `{"name":"`+name+`",`+more+`}`)
	}
	require.Equal(t, 201, put("ann", `"role":"OWNER","password":"`+goodPassword+`"`).status)
	require.Equal(t, 201, put("cy", `"role":"OWNER"`).status, "who cannot sign in does not count")
	for name, try := range map[string]func() answer{
		"demoted":  func() answer { return put("ann", `"role":"OPERATOR"`) },
		"disabled": func() answer { return put("ann", `"role":"OWNER","disabled":true`) },
		"deleted":  func() answer { return b.do(t, "DELETE", "/admin/v1/accounts/ann", "") },
		"applied": func() answer {
			return b.do(t, "POST", "/admin/v1/apply", `[{"kind":"Account","name":"ann","role":"VIEWER"}]`)
		},
		"tried": func() answer { return b.do(t, "DELETE", "/admin/v1/accounts/ann?dry_run=true", "") },
	} {
		requireError(t, try(), 409, "last_owner", "last account")
		require.Equal(t, configv1.Role_OWNER, b.account(t, "ann").GetRole(), name)
	}
	require.Equal(t, 201, put("bob", `"role":"OWNER","password":"`+goodPassword+`"`).status)
	require.Equal(t, 200, put("ann", `"role":"OPERATOR"`).status)
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/accounts/ann", "").status)
	requireError(t, b.do(t, "DELETE", "/admin/v1/accounts/bob", ""), 409, "last_owner", "")
}

// everything returns all that etcd holds.
func (b *bench) everything(t *testing.T) string {
	t.Helper()
	all, err := b.etcd.Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	var text strings.Builder
	for _, kv := range all.Kvs {
		text.Write(kv.Key)
		text.Write(kv.Value)
	}
	return text.String()
}

func TestNamesAreOnlyNames(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Put(t.Context(), &configv1.Provider{Name: "p", Vendor: "echo"}, 0)
	require.NoError(t, err)
	before := b.everything(t)
	for _, name := range []string{"../keys/x", "..%2f..%2froot", "a%00b", "%2e%2e/x", "x'%20OR%20'1'='1",
		"x;DROP%20TABLE%20audit", "a%0d%0aSet-Cookie:x", strings.Repeat("a", 3000), "%ff%fe"} {
		for _, method := range []string{"GET", "DELETE", "PUT"} {
			for _, kind := range []string{"providers", "keys", "models", "accounts", "projects"} {
				a := b.do(t, method, "/admin/v1/"+kind+"/"+name, `{"name":"x"}`)
				require.Contains(t, []int{400, 404, 405}, a.status, "%s %s %s: %s", method, kind, name, a.body)
			}
		}
		for _, path := range []string{"/admin/v1/keys/" + name + "/consumption", "/admin/v1/fine_tuning/jobs/" + name,
			"/admin/v1/audit?name=" + name + "&after=" + name, "/admin/v1/providers?q=" + name} {
			require.Contains(t, []int{200, 400, 404, 503}, b.do(t, "GET", path, "").status, path)
		}
	}
	require.Equal(t, before, b.everything(t), "nothing was written")
}
