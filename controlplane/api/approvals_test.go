package api_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A supervised gateway has one ApprovalRule, the organization acme with $100 a month, and people.
type supervised struct {
	*bench
	people map[string]authz.Principal
}

// ask sends a request as one of the people.
func (s *supervised) ask(t *testing.T, who, method, path, body string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/admin/v1"+path, strings.NewReader(body))
	w := httptest.NewRecorder()
	handler := api.New(s.config)
	handler.ServeHTTP(w, r.WithContext(authz.WithPrincipal(r.Context(), s.people[who])))
	a := answer{w.Code, w.Header(), w.Body.String()}
	checkAnswer(t, r, a)
	return a
}

// waits demands that a change waits, and returns its id.
func (s *supervised) waits(t *testing.T, who, method, path, body string) string {
	t.Helper()
	a := s.ask(t, who, method, path, body)
	require.Equal(t, 202, a.status, a.body)
	require.True(t, gjson.Get(a.body, "pending").Bool(), a.body)
	return gjson.Get(a.body, "approval.id").Str
}

func (s *supervised) approve(t *testing.T, who, id string) answer {
	t.Helper()
	return s.ask(t, who, "POST", "/approvals/"+id+"/approve", "")
}

// budgets are those of an object as they are stored.
func (s *supervised) budgets(t *testing.T, path string) string {
	t.Helper()
	return gjson.Get(s.do(t, "GET", "/admin/v1"+path, "").body, "budgets.#.usd").Raw
}

func newSupervised(t *testing.T, rule string) *supervised {
	t.Helper()
	s := &supervised{newBench(t), map[string]authz.Principal{}}
	for _, path := range []string{"organizations/acme", "organizations/other", "organizations/open",
		"projects/acme/web"} {
		_, name, _ := strings.Cut(path, "/")
		more := ""
		if path == "organizations/acme" {
			more = `,"budgets":[{"unit":"MONTH","usd":"100"}]`
		}
		require.Equal(t, 201, s.do(t, "PUT", "/admin/v1/"+path, `{"name":"`+name+`"`+more+`}`).status)
	}
	for _, a := range []string{`{"name":"ann","role":"ADMIN"}`, `{"name":"bob","role":"ADMIN"}`,
		`{"name":"olga","role":"OPERATOR"}`, `{"name":"zoe","role":"OWNER"}`,
		`{"name":"tina","memberships":[{"organization":"acme","role":"ADMIN"}]}`,
		`{"name":"tom","memberships":[{"organization":"acme","role":"ADMIN"}]}`,
		`{"name":"max","memberships":[{"organization":"acme","role":"MEMBER"}]}`,
		`{"name":"eve","memberships":[{"organization":"other","role":"ADMIN"}]}`} {
		made := s.do(t, "POST", "/admin/v1/accounts", a)
		require.Equal(t, 201, made.status, made.body)
		account := s.account(t, gjson.Get(a, "name").Str)
		s.people[account.GetName()] = authz.PrincipalOfAccount(account, "", "127.0.0.1")
	}
	made := s.do(t, "PUT", "/admin/v1/approvalrules/big", `{"name":"big",`+rule+`}`)
	require.Equal(t, 201, made.status, made.body)
	return s
}

func (s *supervised) account(t *testing.T, name string) *configv1.Account {
	t.Helper()
	e, err := s.store.Get(t.Context(), configv1.KindOf((*configv1.Account)(nil)), name)
	require.NoError(t, err)
	return e.Object.(*configv1.Account)
}

const above1000 = `"budget_usd_month":"1000"`

// big is acme with a budget.
func big(usd string) string {
	return fmt.Sprintf(`{"name":"acme","budgets":[{"unit":"MONTH","usd":"%s"}]}`, usd)
}

func TestABudgetWaitsForASecondPerson(t *testing.T) {
	s := newSupervised(t, above1000)
	require.Equal(t, 200, s.ask(t, "olga", "PUT", "/organizations/acme", big("900")).status, "it is not above the amount")
	id := s.waits(t, "olga", "PUT", "/organizations/acme", big("1000.01"))
	require.Equal(t, `["900"]`, s.budgets(t, "/organizations/acme"))

	shown := s.ask(t, "bob", "GET", "/approvals/"+id, "").body
	require.Contains(t, gjson.Get(shown, "diff").Str, `+  usd: "1000.01"`)
	require.Equal(t, "ApprovalRule big: it may spend up to $1000.01 a month, which is more than $1000.",
		gjson.Get(shown, "reason").Str)
	require.Equal(t, "olga", gjson.Get(shown, "asked_by").Str)
	require.True(t, gjson.Get(shown, "may_decide").Bool())
	require.Equal(t, 1, len(gjson.Get(s.ask(t, "olga", "GET", "/approvals", "").body, "items").Array()), "her own")

	require.Equal(t, "approvals", gjson.Get(s.ask(t, "bob", "GET", "/attention", "").body, "items.0.kind").Str)
	require.Empty(t, gjson.Get(s.ask(t, "olga", "GET", "/attention", "").body, "items").Array())

	requireError(t, s.approve(t, "olga", id), 403, "insufficient_permissions", "")
	done := s.approve(t, "bob", id)
	require.Equal(t, 200, done.status, done.body)
	require.Equal(t, `["1000.01"]`, s.budgets(t, "/organizations/acme"))
	requireError(t, s.approve(t, "ann", id), 404, "not_found", "does not wait")
	require.Empty(t, gjson.Get(s.ask(t, "bob", "GET", "/approvals", "").body, "items").Array())

	entries := s.entries(t)
	asked, approved := entries[len(entries)-2], entries[len(entries)-1]
	require.Equal(t, "ask olga Organization acme", strings.Join([]string{asked.Action, asked.Actor, asked.Kind,
		asked.Name}, " "))
	require.Contains(t, asked.Diff, id)
	require.Equal(t, "approve bob", approved.Action+" "+approved.Actor)
	require.Contains(t, approved.Diff, id+", asked by olga")
	require.Contains(t, approved.Diff, `+  usd: "1000.01"`)
	require.Equal(t, 200, s.ask(t, "olga", "PUT", "/organizations/acme", big("50")).status, "less needs nobody")
}

func TestNobodyApprovesTheirOwnChange(t *testing.T) {
	s := newSupervised(t, above1000)
	id := s.waits(t, "ann", "PUT", "/organizations/acme", big("5000"))
	requireError(t, s.approve(t, "ann", id), 403, "insufficient_permissions", "somebody else")
	requireError(t, s.ask(t, "ann", "POST", "/approvals/"+id+"/reject", "{}"), 403, "insufficient_permissions",
		"withdraw")
	requireError(t, s.ask(t, "bob", "DELETE", "/approvals/"+id, ""), 403, "insufficient_permissions", "reject")

	made := s.ask(t, "ann", "POST", "/admintokens", `{"display_name":"x","scopes":["config:write","keys:write","keys:read","admins:write"]}`)
	require.Equal(t, 201, made.status, made.body)
	token := as(gjson.Get(made.body, "token").Str)
	requireError(t, s.do(t, "POST", "/admin/v1/approvals/"+id+"/approve", "", token), 403, "insufficient_permissions",
		"somebody else")
	requireError(t, s.do(t, "POST", "/admin/v1/approvals/"+id+"/approve", ""), 403, "insufficient_permissions",
		"Only a person")
	require.Equal(t, 204, s.do(t, "DELETE", "/admin/v1/approvals/"+id, "", token).status, "what is hers")

	byToken := s.do(t, "PUT", "/admin/v1/organizations/acme", big("5000"), token)
	require.Equal(t, 202, byToken.status, byToken.body)
	id = gjson.Get(byToken.body, "approval.id").Str
	requireError(t, s.approve(t, "ann", id), 403, "insufficient_permissions", "somebody else")
	renewed := s.do(t, "PUT", "/admin/v1/admintokens/"+gjson.Get(made.body, "id").Str, `{"name":"`+
		gjson.Get(made.body, "id").Str+`","scopes":["keys:read"],"owner":"bob"}`)
	require.Equal(t, 200, renewed.status, renewed.body)
	requireError(t, s.approve(t, "ann", id), 403, "insufficient_permissions", "somebody else")
	require.Equal(t, 200, s.approve(t, "bob", id).status)
}

func TestOfTwoWhoApproveOneDoes(t *testing.T) {
	s := newSupervised(t, above1000)
	for range 3 {
		id := s.waits(t, "olga", "PUT", "/organizations/acme", big("5000"))
		var done sync.WaitGroup
		statuses := make([]int, 3)
		for i, who := range []string{"ann", "bob", "zoe"} {
			done.Go(func() { statuses[i] = s.approve(t, who, id).status })
		}
		done.Wait()
		made := 0
		for _, status := range statuses {
			if status == 200 {
				made++
			} else {
				require.Contains(t, []int{404, 409}, status)
			}
		}
		require.Equal(t, 1, made)
		require.Equal(t, 200, s.do(t, "PUT", "/admin/v1/organizations/acme", big("100")).status)
	}
}

func TestAChangeOfWhatWasChangedSinceIsNotApproved(t *testing.T) {
	s := newSupervised(t, above1000)
	id := s.waits(t, "olga", "PUT", "/organizations/acme", big("5000"))
	require.Equal(t, 200, s.do(t, "PUT", "/admin/v1/organizations/acme", `{"name":"acme","disabled":true,"budgets":[{"unit":"MONTH","usd":"100"}]}`).status)
	requireError(t, s.approve(t, "bob", id), 409, "approval_void", "was changed")
	require.True(t, gjson.Get(s.ask(t, "bob", "GET", "/approvals/"+id, "").body, "stale").Bool())
	require.Contains(t, s.do(t, "GET", "/admin/v1/organizations/acme", "").body, `"disabled":true`)
	require.Equal(t, 200, s.ask(t, "bob", "POST", "/approvals/"+id+"/reject", `{"reason":"Ask again."}`).status)
	last := s.entries(t)
	require.Equal(t, "reject", last[len(last)-1].Action)
	require.Contains(t, last[len(last)-1].Diff, "Ask again.")

	id = s.waits(t, "olga", "POST", "/organizations", `{"name":"new"}`)
	require.Equal(t, 204, s.ask(t, "olga", "DELETE", "/approvals/"+id, "").status)
	requireError(t, s.approve(t, "bob", id), 404, "not_found", "")
}

func TestAChangeExpires(t *testing.T) {
	s := newSupervised(t, above1000+`,"expires_after":"3600s"`)
	id := s.waits(t, "olga", "PUT", "/organizations/acme", big("5000"))
	key := configstore.Approvals + id
	kept, err := s.etcd.Get(t.Context(), key)
	require.NoError(t, err)
	expires, err := time.Parse(time.RFC3339, gjson.GetBytes(kept.Kvs[0].Value, "expires_at").Str)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), expires, time.Minute)
	var w map[string]any
	require.NoError(t, json.Unmarshal(kept.Kvs[0].Value, &w))
	w["expires_at"] = time.Now().Add(-time.Second)
	value, err := json.Marshal(w)
	require.NoError(t, err)
	_, err = s.etcd.Put(t.Context(), key, string(value))
	require.NoError(t, err)
	requireError(t, s.approve(t, "bob", id), 409, "approval_void", "expired")

	gone := s.etcd.Watch(t.Context(), key)
	go func() { _ = api.Expire(s.config)(t.Context()) }()
	<-gone
	last := s.entries(t)
	require.Equal(t, "expire control plane", last[len(last)-1].Action+" "+last[len(last)-1].Actor)
}

func TestWaysRoundWait(t *testing.T) {
	s := newSupervised(t, above1000)
	key := s.makeKey(t, `{"display_name":"k","organization":"acme","project":"web"}`)
	for what, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"a key within a budget": {"POST", "/keys", `{"display_name":"k","organization":"acme"}`, 201},
		"a small budget":        {"POST", "/keys", `{"display_name":"k","organization":"open","budgets":[{"unit":"DAY","usd":"30"}]}`, 201},
		"no budget at all":      {"POST", "/keys", `{"display_name":"k"}`, 202},
		"nor in the tenant":     {"POST", "/keys", `{"display_name":"k","organization":"open"}`, 202},
		"a day's that is more in a month": {"POST", "/keys",
			`{"display_name":"k","budgets":[{"unit":"DAY","usd":"33"}]}`, 202},
		"the key leaves the tenant":   {"PUT", "/keys/" + key, `{"name":"` + key + `","display_name":"k"}`, 202},
		"it goes to an open one":      {"PUT", "/keys/" + key, `{"name":"` + key + `","display_name":"k","organization":"open"}`, 202},
		"the budget is left out":      {"PUT", "/organizations/acme", `{"name":"acme"}`, 202},
		"a new organization":          {"POST", "/organizations", `{"name":"n"}`, 202},
		"a project in an open one":    {"POST", "/projects", `{"name":"open/p"}`, 202},
		"a project within a budget":   {"POST", "/projects", `{"name":"acme/p"}`, 201},
		"by apply":                    {"POST", "/apply", `[{"kind":"Organization","name":"acme"}]`, 202},
		"an organization by the way":  {"POST", "/keys?create_missing=true", `{"display_name":"k","organization":"q","budgets":[{"unit":"DAY","usd":"1"}]}`, 409},
		"a rule is not an operator's": {"PUT", "/approvalrules/big", `{"name":"big","keys":true}`, 403},
	} {
		t.Run(what, func(t *testing.T) {
			a := s.ask(t, "olga", c.method, c.path, c.body)
			require.Equal(t, c.status, a.status, a.body)
		})
	}
	off := s.ask(t, "zoe", "POST", "/apply", `[{"kind":"ApprovalRule","name":"big","disabled":true,"keys":true},
		{"kind":"Organization","name":"acme"}]`)
	require.Equal(t, `["updated","pending"]`, gjson.Get(off.body, "changes.#.action").Raw, "the rules of before count")
	require.Equal(t, `["100"]`, s.budgets(t, "/organizations/acme"))
}

// makeKey makes a key that does not wait.
func (s *supervised) makeKey(t *testing.T, body string) string {
	t.Helper()
	a := s.do(t, "POST", "/admin/v1/keys", body)
	require.Equal(t, 201, a.status, a.body)
	return gjson.Get(a.body, "id").Str
}

func TestOfAnApplyTheRestIsMade(t *testing.T) {
	s := newSupervised(t, above1000)
	docs := `[{"kind":"Provider","name":"p","vendor":"echo"},{"kind":"Organization",` + big("5000")[1:] + `,
		{"kind":"Organization","name":"small","budgets":[{"unit":"DAY","usd":"1"}]}]`
	dry := s.ask(t, "olga", "POST", "/apply?dry_run=true", docs)
	require.Equal(t, 200, dry.status, dry.body)
	require.Equal(t, `["created","pending","created"]`, gjson.Get(dry.body, "changes.#.action").Raw)
	require.Empty(t, gjson.Get(s.ask(t, "olga", "GET", "/approvals", "").body, "items").Array())

	a := s.ask(t, "olga", "POST", "/apply", docs)
	require.Equal(t, 202, a.status, a.body)
	require.Equal(t, `["created","pending","created"]`, gjson.Get(a.body, "changes.#.action").Raw)
	require.Equal(t, 200, s.do(t, "GET", "/admin/v1/organizations/small", "").status)
	again := s.ask(t, "olga", "POST", "/apply", docs)
	require.Equal(t, `["unchanged","pending","unchanged"]`, gjson.Get(again.body, "changes.#.action").Raw)
	require.Equal(t, gjson.Get(a.body, "changes.1.approval.id").Str, gjson.Get(again.body, "changes.1.approval.id").Str)
	require.Equal(t, 200, s.approve(t, "bob", gjson.Get(a.body, "changes.1.approval.id").Str).status)

	key := s.makeKey(t, `{"display_name":"k","organization":"small"}`)
	requireError(t, s.ask(t, "olga", "POST", "/apply", `[{"kind":"Organization","name":"n"},{"kind":"Key","name":"`+key+
		`","organization":"n","budgets":[{"unit":"DAY","usd":"1"}]}]`), 409, "approval_needed", "Organization n")
	require.Contains(t, s.do(t, "GET", "/admin/v1/keys/"+key, "").body, `"small"`)
}

func TestAdminsOfATenantApproveIfTheRuleSaysSo(t *testing.T) {
	s := newSupervised(t, `"keys":true,"organization":"acme"`)
	created := s.ask(t, "max", "POST", "/keys", `{"display_name":"k","organization":"acme"}`)
	require.Equal(t, 202, created.status, created.body)
	id := gjson.Get(created.body, "approval.id").Str
	requireError(t, s.approve(t, "tina", id), 403, "insufficient_permissions", "ADMIN or OWNER of the gateway")
	require.Equal(t, 404, s.approve(t, "eve", id).status)
	require.Empty(t, gjson.Get(s.ask(t, "eve", "GET", "/approvals", "").body, "items").Array())

	require.Equal(t, 200, s.do(t, "PUT", "/admin/v1/approvalrules/big",
		`{"name":"big","keys":true,"organization":"acme","approvers":"TENANT_ADMINS"}`).status)
	created = s.ask(t, "tina", "POST", "/keys", `{"display_name":"k","organization":"acme"}`)
	id = gjson.Get(created.body, "approval.id").Str
	requireError(t, s.approve(t, "tina", id), 403, "insufficient_permissions", "somebody else")
	requireError(t, s.approve(t, "max", id), 403, "insufficient_permissions", "admins:write")
	require.Equal(t, 404, s.approve(t, "eve", id).status)
	done := s.approve(t, "tom", id)
	require.Equal(t, 200, done.status, done.body)

	id = gjson.Get(s.ask(t, "tina", "POST", "/keys", `{"display_name":"k","organization":"acme"}`).body, "approval.id").Str
	require.Equal(t, 201, s.do(t, "PUT", "/admin/v1/approvalrules/more", `{"name":"more","keys":true}`).status)
	requireError(t, s.approve(t, "tom", id), 403, "insufficient_permissions", "ADMIN or OWNER of the gateway")
	require.Equal(t, 200, s.approve(t, "ann", id).status)
}

func TestAChangeOfSomebodyWhoIsGoneIsNotApproved(t *testing.T) {
	s := newSupervised(t, above1000+`,"keys":true`)
	org := s.waits(t, "olga", "PUT", "/organizations/acme", big("5000"))
	key := gjson.Get(s.ask(t, "olga", "POST", "/keys", `{"display_name":"k","organization":"acme"}`).body,
		"approval.id").Str
	require.Equal(t, 200, s.do(t, "PUT", "/admin/v1/accounts/olga", `{"name":"olga","role":"OPERATOR","disabled":true}`).status)
	requireError(t, s.approve(t, "bob", org), 409, "approval_void", "Account olga")
	requireError(t, s.approve(t, "bob", key), 409, "approval_void", "Account olga")
	require.Equal(t, 204, s.do(t, "DELETE", "/admin/v1/accounts/olga", "").status)
	requireError(t, s.approve(t, "bob", key), 404, "not_found", "does not wait")
}

func TestANewKeyWorksOnceItIsApproved(t *testing.T) {
	s := newSupervised(t, `"keys":true`)
	a := s.ask(t, "olga", "POST", "/keys", `{"display_name":"k","organization":"acme"}`)
	require.Equal(t, 202, a.status, a.body)
	key, name, id := gjson.Get(a.body, "key").Str, gjson.Get(a.body, "id").Str, gjson.Get(a.body, "approval.id").Str
	require.Regexp(t, "^sk-mg-", key)
	require.Equal(t, 404, s.do(t, "GET", "/admin/v1/keys/"+name, "").status)
	shown := s.ask(t, "bob", "GET", "/approvals/"+id, "")
	require.NotContains(t, shown.body+fmt.Sprint(s.entries(t)), key)
	require.NotContains(t, shown.body, "hash")
	kept, err := s.etcd.Get(t.Context(), configstore.Approvals+id)
	require.NoError(t, err)
	require.NotContains(t, string(kept.Kvs[0].Value), key)
	done := s.approve(t, "bob", id)
	require.Equal(t, 200, done.status, done.body)
	require.NotContains(t, done.body, "hash")
	e, err := s.store.Get(t.Context(), configv1.KeyKind(), name)
	require.NoError(t, err)
	hash := s.hasher.Hash(key)
	require.Equal(t, hash[:], e.Object.(*configv1.Key).GetHash())
	require.Equal(t, "olga", e.Object.(*configv1.Key).GetOwner())

	// What takes rights away, or gives none, does not wait.
	require.Equal(t, 200, s.ask(t, "olga", "POST", "/keys/"+name+"/rotate", `{"grace_seconds":60}`).status)
	narrow := `{"name":"` + name + `","display_name":"k","organization":"acme","disabled":true,"models":["a"]}`
	require.Equal(t, 200, s.ask(t, "olga", "PUT", "/keys/"+name, narrow).status)
	for _, wider := range []string{`"models":["a","b"]`, `"disabled":true`, `"disabled":false,"models":["a"]`,
		`"disabled":true,"models":["a"],"project":"web"`} {
		s.waits(t, "olga", "PUT", "/keys/"+name, `{"name":"`+name+`","display_name":"k","organization":"acme",`+wider+`}`)
	}
	require.Len(t, gjson.Get(s.ask(t, "bob", "GET", "/approvals", "").body, "items").Array(), 1,
		"the next takes the place of the one before")
	require.Equal(t, 204, s.ask(t, "olga", "DELETE", "/keys/"+name, "").status)
}

func TestHowManyChangesWaitIsBounded(t *testing.T) {
	s := newSupervised(t, `"keys":true`)
	for range 100 {
		require.Equal(t, 202, s.ask(t, "max", "POST", "/keys", `{"display_name":"k","organization":"acme"}`).status)
	}
	for _, who := range []string{"max", "tina"} {
		requireError(t, s.ask(t, who, "POST", "/keys", `{"display_name":"k","organization":"acme"}`), 403,
			"insufficient_permissions", "Too many changes")
	}
	require.Equal(t, 202, s.ask(t, "olga", "POST", "/keys", `{"display_name":"k","organization":"acme"}`).status)
	large := make([]string, 250)
	for i := range large {
		large[i] = fmt.Sprintf(`"%0200d"`, i)
	}
	requireError(t, s.ask(t, "olga", "POST", "/keys", `{"display_name":"k","models":[`+
		strings.Join(large, ",")+`]}`), 413, "object_too_large", "16384")
}

// entries are those of the audit log that are in etcd, the oldest first.
func (s *supervised) entries(t *testing.T) []adminapi.AuditEntry {
	t.Helper()
	r, err := s.etcd.Get(t.Context(), "/modelgate/audit.chain/", clientv3.WithPrefix())
	require.NoError(t, err)
	var all []adminapi.AuditEntry
	for _, kv := range r.Kvs {
		var some []adminapi.AuditEntry
		require.NoError(t, json.Unmarshal(kv.Value, &some))
		all = append(all, some...)
	}
	return all
}
