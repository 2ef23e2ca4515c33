package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// evil is what somebody puts wherever text can be put.
const evil = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}`

// fill makes one of everything, with evil text wherever the API takes it, and returns the path of the key.
func fill(t *testing.T, b *bench, w *browser) string {
	t.Helper()
	made := func(path string, fields ...string) shown {
		p := w.post(path, fields...)
		require.Contains(t, []int{200, 303}, p.status, "%s: %s", path, text(p.body))
		return p
	}
	made("/organizations", "name", "acme", "display_name", evil, "limit_domain", "requests", "limit_unit", "MINUTE",
		"limit_amount", "1,000", "limit_model", "", "budget_month", "$500")
	made("/projects", "organization", "acme", "name", "search", "display_name", evil)
	made("/providers", "name", "echo", "vendor", "echo", "credential_source", "value", "credential", "sk-very-secret",
		"models", "echo", "allow_unlisted_models", "on", "action", "anyway")
	made("/models", "name", "team/fast", "target_provider", "echo", "target_model", evil, "target_weight", "",
		"target_priority", "")
	made("/rate-limits", "name", "users", "domain", "requests", "unit", "MINUTE", "amount", "20", "entry_key", "key",
		"entry_value", "", "entry_key", "user", "entry_value", "")
	made("/policies", "name", "office", "rule_name", "tools", "rule_effect", "deny", "rule_mode", "enforce",
		"rule_says", evil, "rule_expression", "user == r'''"+evil+"'''")
	p := made("/keys", "display_name", evil, "organization", "acme", "project", "search", "metadata", "note="+evil,
		"limit_domain", "tokens", "limit_unit", "HOUR", "limit_amount", "50", "limit_model", "", "budget_day", "0.50",
		"expires_at", "2099-01-02T03:04")
	require.Regexp(t, `sk-mg-[0-9a-zA-Z]+`, p.body)
	made("/tokens", "display_name", evil, "scope", "config:read")
	now := time.Now()
	totals := adminapi.Totals{Requests: 3, Errors: 1, InputTokens: 5, OutputTokens: 6, CostUSD: "0.01", LatencyP50: 10,
		LatencyP95: 20}
	b.ledger.summary = adminapi.Summary{Totals: totals, Hours: []adminapi.SummaryHour{{Start: now, Totals: totals}},
		Models:    []adminapi.NamedTotals{{Name: evil, Totals: totals}},
		Providers: []adminapi.NamedTotals{{Name: evil, Totals: totals}}}
	b.ledger.exchanges = []adminapi.Exchange{{RequestID: evil, Start: now, Key: evil, Organization: evil, Project: evil,
		User: evil, Operation: evil, Model: evil, Provider: evil, Upstream: evil, Outcome: evil, ErrorCode: evil,
		CostUSD: evil, Priced: true, ID: evil, RefusedBy: evil, PriceVersion: evil, AttemptList: []adminapi.Attempt{{
			Provider: evil, Model: evil, Kind: evil, Error: evil, FirstByteMS: 1, DurationMS: 2}},
		Detail: &adminapi.ExchangeDetail{TraceID: evil, Plan: []string{evil}, Dropped: evil, Adjusted: evil,
			UpstreamID: evil, Limits: []adminapi.LimitHeld{{Rule: evil, Reserved: evil, Settled: evil}}},
		Cost: &adminapi.CostSheet{Problem: evil, Lines: []adminapi.CostLine{{Part: evil, PriceUSD: evil, CostUSD: evil}}}}}
	b.ledger.audit = []adminapi.AuditEntry{{At: now, Actor: evil, Role: evil, Address: evil, Action: evil, Kind: evil,
		Name: evil, Diff: "+" + evil}}
	b.ledger.series = func(q url.Values) adminapi.Series {
		hours := []adminapi.SummaryHour{{Start: now, Totals: totals}}
		return adminapi.Series{By: q.Get("by"), Totals: totals, Buckets: hours, GroupsLeftOut: 1,
			Groups: []adminapi.SeriesGroup{{Name: evil, DisplayName: evil, Totals: totals, Buckets: hours}}}
	}
	b.ledger.budgets = adminapi.Budgets{LeftOut: 3, Items: []adminapi.BudgetUse{{Scope: "key/" + evil, DisplayName: evil,
		Unit: "month", USD: "1", Spent: "0.5", Forecast: "2"}}}
	b.ledger.attention = []adminapi.Attention{{Kind: "budget", Severity: "warning", Object: evil, Message: evil,
		Path: "/keys/x"}}
	job, err := json.Marshal(map[string]any{"id": evil, "status": "running", "model": evil, "fine_tuned_model": evil,
		"endpoint": evil, "created_at": now.Unix(),
		"request_counts": map[string]int{"total": 10, "completed": 4, "failed": 1},
		"errors":         map[string]any{"data": []any{map[string]any{"message": evil}}},
		"error":          map[string]any{"message": evil}})
	require.NoError(t, err)
	b.jobs.batches = []adminapi.TenantObject{{Organization: evil, Project: evil, Key: evil, Object: job}}
	b.jobs.tuning = b.jobs.batches
	b.jobs.failures = []adminapi.BatchFailure{{CustomID: evil, RequestID: evil, ErrorCode: evil, Message: evil}}
	event, err := json.Marshal(map[string]any{"created_at": now.Unix(), "level": evil, "message": evil,
		"data": map[string]any{"step": 1, "train_loss": 0.5, "loss" + evil: 0.7}})
	require.NoError(t, err)
	b.jobs.events = []json.RawMessage{event}
	b.plane.clients = []adminapi.DataPlaneClient{{Node: evil, Role: evil, Version: evil, Health: evil, Error: evil}}
	m := regexp.MustCompile(`href="(/keys/key_[^"]+)"`).FindStringSubmatch(p.body)
	require.NotNil(t, m)
	return m[1]
}

func everyPage(key string) []string {
	return []string{
		"/", "/usage?by=model", "/usage?by=model&measure=cost&range=30d", "/usage?by=provider&compare=true",
		"/?range=1h&compare=true", "/?range=nonsense", "/usage?range=custom&from=2026-01-01&to=2026-01-02&by=key",
		"/usage?organization=acme&measure=cost&range=30d", "/usage?model=" + url.QueryEscape(evil), "/requests",
		"/requests?model=" + url.QueryEscape(evil), "/requests?live=true&outcome=error", "/requests/x", "/playground",
		"/keys", "/keys?organization=acme", "/keys?q=" + url.QueryEscape(evil), key, key + "/revoke", key + "/rotate",
		"/new/key", "/new/key?organization=" + url.QueryEscape(evil),
		"/organizations", "/organizations/acme", "/new/organization", "/projects", "/projects/acme/search", "/new/project",
		"/rate-limits", "/new/rate-limit", "/policies", "/policies/office", "/new/policy",
		"/providers", "/providers/echo", "/new/provider", "/models", "/models?where=" + url.QueryEscape(evil),
		"/models?where=team/fast", "/models?where=echo/x", "/models/team/fast", "/new/model",
		"/batches", "/batches/x", "/fine-tuning", "/fine-tuning/x", "/audit", "/data-plane", "/objects", "/objects/Key",
		"/objects/Model/team/fast", "/delete/Model/team/fast", "/history/Model/team/fast", "/new/object/Route",
		"/accounts", "/accounts/ada", "/new/account", "/tokens", "/new/token", "/account",
	}
}

func TestEveryPageEscapesWhatPeoplePutIn(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	key := fill(t, b, w)
	for _, path := range everyPage(key) {
		p := w.get(path)
		require.Equal(t, 200, p.status, "%s: %s", path, text(p.body))
		require.NotContains(t, p.body, "<script>alert", path)
		require.NotContains(t, p.body, "<img src=x", path)
		require.NotContains(t, p.body, "sk-very-secret", path)
		require.NotContains(t, p.body, "ZgotmplZ", path)
		require.NotContains(t, p.body, "argon2id", path)
		require.True(t, strings.HasSuffix(strings.TrimSpace(p.body), "</html>"), path)
	}
}

func TestEveryPageWhereThereIsNothingAndWhereTheLedgerIsAway(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, away := range []bool{false, true} {
		b.ledger.away = away
		for path, says := range map[string]string{
			"/": "Add a provider", "/keys": "Create the first key", "/organizations": "Create an organization",
			"/projects": "Create a project", "/rate-limits": "Create a rate limit", "/policies": "Create a policy",
			"/providers": "Add a provider", "/models": "Create a model", "/batches": "POST /v1/batches",
			"/fine-tuning": "POST /v1/fine_tuning/jobs", "/requests": "playground",
			"/requests?status=404": "No matching requests",
			"/usage":               "Choose another time", "/data-plane": "modelgate doctor", "/tokens": "Create a token",
			"/keys?q=nothing": "Show all keys", "/objects/Route": "as YAML", "/audit": "",
		} {
			p := w.get(path)
			require.Equal(t, 200, p.status, "%s: %s", path, text(p.body))
			if away && (path == "/" || path == "/requests" || path == "/usage") {
				says = "unavailable"
			}
			require.Contains(t, text(p.body), says, path)
		}
	}
}

// Report 12.
func TestAKeyHasItsTenantMadeWhereTheFormSaysSo(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	form := []string{"display_name", "n", "organization", "newcomers", "project", "web"}
	p := w.post("/keys", form...)
	require.Equal(t, 422, p.status)
	require.Contains(t, text(p.body), "there is no Organization newcomers")
	require.Contains(t, p.body, `<input type="checkbox" name="create_missing">`)
	p = w.post("/keys", append(form, "create_missing", "on")...)
	require.Regexp(t, `sk-mg-[0-9a-zA-Z]+`, p.body)
	require.Equal(t, 200, w.get("/organizations/newcomers").status)
	require.Equal(t, 200, w.get("/projects/newcomers/web").status)
}

func TestAKeyThroughItsLife(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	path := fill(t, b, w)
	page := w.get(path)
	require.Contains(t, page.body, `value="50"`)
	require.NotRegexp(t, `sk-mg-[0-9a-zA-Z]{8}`, page.body, "it is shown once")
	revision := regexp.MustCompile(`name="revision" value="(\d+)"`).FindStringSubmatch(page.body)[1]
	save := []string{"action", "save", "revision", revision, "display_name", "renamed", "organization", "acme",
		"limit_domain", "concurrency", "limit_unit", "MINUTE", "limit_amount", "7", "limit_model", ""}
	p := w.post(path, save...)
	require.Equal(t, 303, p.status, text(p.body))
	require.Contains(t, text(w.get(p.location).body), "Saved.")
	p = w.post(path, save...)
	require.Equal(t, 422, p.status)
	require.Contains(t, text(p.body), "Another user changed this object")
	p = w.post(path, "action", "save", "display_name", "x", "limit_domain", "requests", "limit_unit", "MINUTE",
		"limit_amount", "many", "limit_model", "")
	require.Equal(t, 422, p.status)
	require.Contains(t, text(p.body), "not a whole number")
	require.Equal(t, 303, w.post(path, "action", "disable").status)
	require.Contains(t, text(w.get(path).body), "disabled")
	require.Equal(t, 303, w.post(path, "action", "enable").status)
	p = w.post(path, "action", "rotate", "grace", "3600")
	require.Equal(t, 200, p.status)
	require.Regexp(t, `sk-mg-[0-9a-zA-Z]{8}`, p.body)
	require.Contains(t, text(w.get(path).body), "is valid until")
	require.Equal(t, 303, w.post(path, "action", "revoke").status)
	require.Equal(t, 404, w.get(path).status)
}

func TestTheEditorShowsTheDifferenceBeforeItSaves(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	fill(t, b, w)
	require.Contains(t, w.get("/objects/Provider/echo").body, "[redacted]")
	edited := "kind: Provider\nname: echo\nvendor: echo\ncredential: {sealed: '[redacted]'}\ndisabled: true\n"
	p := w.post("/objects/Provider/echo", "action", "check", "text", edited)
	require.Equal(t, 200, p.status)
	require.Contains(t, text(p.body), "+disabled: true")
	require.NotContains(t, text(w.get("/objects/Provider/echo").body), "disabled: true", "a check saves nothing")
	for bad, says := range map[string]string{
		"kind: Provider\nname: other\nvendor: echo\n": "must remain", "kind: Provider\nname: echo\nvendor: nope\n": "vendor",
		"x": "mapping", "": "one object",
		"kind: Provider\nname: echo\nvendor: echo\nnope: 1\n": "unknown field",
		"kind: Account\nname: eve\nrole: OWNER\n":             "must remain",
	} {
		p := w.post("/objects/Provider/echo", "action", "save", "text", bad)
		require.Equal(t, 422, p.status, bad)
		require.Contains(t, text(p.body), says)
	}
	require.Equal(t, 303, w.post("/objects/Provider/echo", "action", "save", "text", edited).status)
	require.Contains(t, w.get("/objects/Provider/echo").body, "disabled: true")
	p = w.post("/objects/Provider", "action", "save", "text", "kind: Provider\nname: echo\nvendor: openai\n")
	require.Equal(t, 422, p.status, "a new one does not take the place of another")
	require.Contains(t, text(p.body), "A Provider named echo already exists")
	require.Equal(t, 303, w.post("/objects/Provider", "action", "save", "text",
		"kind: Provider\nname: new\nvendor: openai\n").status)
	p = w.post("/delete/Provider/echo")
	require.Equal(t, 422, p.status, "a model needs it")
	require.Contains(t, text(p.body), "team/fast")
	require.Equal(t, 303, w.post("/delete/Model/team/fast").status)
	require.Equal(t, 303, w.post("/delete/Provider/echo").status)
}

func TestOfWhatRefreshesItselfOnlyThatPartIsSent(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	ask := func(w *browser, path, part string) shown {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("HX-Request", "true")
		r.Header.Set("HX-Target", part)
		return w.do(r)
	}
	for path, part := range map[string]string{"/": "figures", "/keys": "results", "/batches": "batches",
		"/fine-tuning": "jobs", "/data-plane": "plane"} {
		p := ask(w, path, part)
		require.Equal(t, 200, p.status, path)
		require.Contains(t, p.body, `id="`+part+`"`, path)
		require.NotContains(t, p.body, "<html", path)
	}
	require.Contains(t, ask(w, "/keys", "nothing").body, "<html")
	p := ask(b.browser(t), "/batches", "batches")
	require.Equal(t, 401, p.status)
	require.Equal(t, "/sign-in", p.header.Get("HX-Redirect"), "the page goes there, not the part of it")
}

func TestTheSwitchOfColours(t *testing.T) {
	b := newBench(t)
	w := b.browser(t)
	require.NotContains(t, w.get("/sign-in").body, "data-theme")
	require.Equal(t, "/sign-in?next=%2Fkeys", w.post("/theme", "theme", "dark", "next", "/sign-in?next=%2Fkeys").location)
	require.Contains(t, w.get("/sign-in").body, `data-theme="dark"`)
	require.Equal(t, "/", w.post("/theme", "theme", "light", "next", "//evil.example").location)
	require.Contains(t, w.get("/sign-in").body, `data-theme="light"`)
	w.post("/theme", "theme", "system", "next", "/")
	require.NotContains(t, w.get("/sign-in").body, "data-theme")
}

func TestUsageAsCSVIsNoFormula(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	at := time.Date(2023, 11, 14, 22, 0, 0, 0, time.UTC)
	b.ledger.series = func(q url.Values) adminapi.Series {
		require.Equal(t, "model", q.Get("by"))
		require.Equal(t, []string{"a", "b"}, q["model"])
		require.Equal(t, "10000", q.Get("detailed"))
		totals := adminapi.Totals{Requests: 1, Errors: 4, InputTokens: 2, CachedTokens: 5, OutputTokens: 3, CostUSD: "0.25"}
		return adminapi.Series{Groups: []adminapi.SeriesGroup{{Name: `=HYPERLINK("x")`, DisplayName: "=2", Totals: totals,
			Buckets: []adminapi.SummaryHour{{Start: at, Totals: totals}}}}}
	}
	p := w.get("/usage.csv?by=model&model=a,b")
	require.Equal(t, "text/csv; charset=utf-8", p.header.Get("Content-Type"))
	require.Contains(t, p.header.Get("Content-Disposition"), "attachment")
	require.Equal(t, "start,model,name,requests,errors,input_tokens,cached_input_tokens,output_tokens,cost_usd\n"+
		"2023-11-14T22:00:00Z,\"'=HYPERLINK(\"\"x\"\")\",'=2,1,4,2,5,3,0.25\n", p.body)
}

func TestUsageIsStackedByNamesAndComparedWithThePeriodBefore(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.ledger.series = func(q url.Values) adminapi.Series {
		start, err := strconv.ParseInt(q.Get("start"), 10, 64)
		require.NoError(t, err)
		bucket := func(n int64, cost string) []adminapi.SummaryHour {
			return []adminapi.SummaryHour{{Start: time.Unix(start, 0), Totals: adminapi.Totals{Requests: n, CostUSD: cost}}}
		}
		s := adminapi.Series{Totals: adminapi.Totals{Requests: 10, CostUSD: "4"}, Buckets: bucket(10, "4"),
			GroupsLeftOut: 150}
		if q.Get("by") == "" {
			s.Totals.CostUSD, s.Buckets = "2", bucket(5, "2")
			return s
		}
		require.Equal(t, "key cost 1m 100", strings.Join([]string{q.Get("by"), q.Get("order"), q.Get("width"),
			q.Get("groups")}, " "))
		s.Groups = []adminapi.SeriesGroup{{Name: "key_1", DisplayName: "Search service", Totals: s.Totals,
			Buckets: bucket(3, "2.5")}}
		return s
	}
	p := w.get("/usage?by=key&measure=cost&range=1h&compare=true")
	seen := text(p.body)
	require.Contains(t, seen, "cost per minute, by key")
	require.Contains(t, p.body, "Usage. Search service: $2.50 in total, highest $2.50. others: $1.50 in total, highest $1.50. Previous period: $2.00 in total")
	require.Contains(t, seen, "150 more rows")
	require.Regexp(t, `Previous period\s+10`, seen)
	// Links of the page and of the navigation lead to the same time.
	require.Contains(t, p.body, `href="/usage?by=model&amp;key=key_1&amp;measure=cost&amp;compare=true&amp;range=1h"`)
	require.Contains(t, p.body, `href="/requests?compare=true&amp;range=1h"`)
	require.Contains(t, p.body, `href="/keys"`)
}

func TestTheOverviewBeginsWithWhatNeedsAttention(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	require.Regexp(t, `Needs attention\s+Nothing\.`, text(w.get("/").body))
	b.plane.clients = []adminapi.DataPlaneClient{{Role: "envoy", Node: "edge-1", Health: "behind"}}
	b.ledger.attention = []adminapi.Attention{{Kind: adminapi.AttentionCredentialRejected, Severity: "error",
		Object: "Provider openai", Message: "The provider has refused the credential.", Path: "/providers/openai"}}
	p := w.get("/")
	require.Regexp(t, `error\s+Provider openai\s*: The provider has refused the credential\.`, text(p.body))
	require.Contains(t, p.body, `href="/providers/openai"`)
	require.Less(t, strings.Index(p.body, "Needs attention"), strings.Index(p.body, `class="tiles"`))

	// What has an incident is told once, and first.
	b.ledger.attention[0].Subject = "provider/openai"
	b.ledger.attention = append(b.ledger.attention, adminapi.Attention{Kind: adminapi.AttentionApprovals,
		Severity: "warning", Message: "1 change waits.", Path: "/approvals"})
	b.ledger.incidents = []adminapi.Incident{{ID: "inc_1", Subject: "provider/openai", Object: "Provider openai",
		Severity: "error", State: "open", Why: "openai refuses our credential since 18:52:57 UTC.",
		Hit: adminapi.IncidentHit{Requests: 50}, Change: &adminapi.IncidentChange{Actor: "ann", Action: "updated",
			Kind: "Provider", Name: "openai"}}}
	p = w.get("/")
	require.NotContains(t, p.body, "The provider has refused the credential.")
	require.Regexp(t, `Incidents\s+error\s+Provider openai\s*: openai refuses our credential since 18:52:57 UTC\.\s+50 requests hit\.\s+`+
		`Before: ann updated Provider openai\.\s+Open\s+provider/openai\s+Needs attention\s+warning\s+1 change waits\.`, text(p.body))
	require.Contains(t, p.body, `href="/incidents/inc_1"`)
	require.Contains(t, text(w.get("/?range=5y").body), `There is no time range "5y". The page shows the last 24 hours.`)
}

func TestThePlaygroundStreamsAsTheGatewayDoes(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	go1 := make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/v1/chat/completions", r.URL.Path)
		require.Equal(t, "Bearer sk-mg-x", r.Header.Get("Authorization"))
		require.Empty(t, r.Header.Get("Cookie"), "the session stays here")
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.Header().Set("Set-Cookie", "a=b")
		fmt.Fprint(rw, "data: 1\n\n")
		http.NewResponseController(rw).Flush()
		<-go1
		fmt.Fprint(rw, "data: 2\n\n")
	}))
	t.Cleanup(gateway.Close)
	b.gateway = func() (string, http.RoundTripper) { return gateway.URL, http.DefaultTransport }
	w.get("/playground")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/playground/ask/chat",
		strings.NewReader(`{}`))
	require.NoError(t, err)
	r.Header.Set("X-Form-Token", w.csrf)
	r.Header.Set("X-Gateway-Key", "sk-mg-x")
	resp, err := w.client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Empty(t, resp.Header.Get("Set-Cookie"))
	first := make([]byte, 9)
	_, err = resp.Body.Read(first)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\n", string(first), "while the gateway still writes")
	close(go1)
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/playground/ask/chat",
		strings.NewReader(`{}`))
	require.NoError(t, err)
	r.Header.Set("X-Gateway-Key", "sk-mg-x")
	require.Equal(t, 403, w.do(r).status, "a form token is needed")
	require.Equal(t, 404, w.post("/playground/ask/telepathy").status)
}
