package dashboard_test

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/providers"
	"github.com/modelgate/modelgate/controlplane/identity"
	realledger "github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/secret"
)

const rootToken = "the-root-token"

// A bench is a dashboard over the real admin API and a real etcd, with a ledger and jobs that the test plays.
type bench struct {
	url       string
	etcd      *clientv3.Client
	dashboard *dashboard.Dashboard
	api       *adminapi.Client        // of the owner of everything
	owners    *configstore.OwnerIndex // which does not run
	terminals func(context.Context, string) (*configv1.Account, error)
	server    *httptest.Server
	ledger    *ledger
	jobs      *jobs
	plane     *plane
	alarms    *alarms
	gateway   func() (string, http.RoundTripper)
	arrivals  atomic.Int64 // requests that the dashboard has begun to serve

	mu      sync.Mutex
	now     time.Time             // guarded by mu
	entries []adminapi.AuditEntry // of sign-in; guarded by mu
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchOver(t, nil)
}

// newBenchOver is newBench with a real ledger, if there is one.
func newBenchOver(t testing.TB, real *realledger.Ledger) *bench {
	t.Helper()
	b := &bench{now: time.Now(), ledger: &ledger{}, jobs: &jobs{}, plane: &plane{}, alarms: &alarms{}}
	root, err := secret.LoadRoot(filepath.Join(t.TempDir(), "root"))
	require.NoError(t, err)
	etcd := etcdtest.Start(t)
	b.etcd = etcd
	vendors := func(name string) (configv1.Vendor, bool) {
		return configv1.Vendor{Operations: []string{"chat/completions"}}, name == "openai" || name == "echo"
	}
	store := configstore.New(etcd, func(o configv1.Object) error { return configv1.ValidateStored(o, vendors).Err() },
		zap.NewNop())
	b.owners = configstore.NewOwnerIndex(store)
	var audits audit.Store
	var versions audit.VersionStore
	if real != nil {
		audits, versions = real, real
	}
	handler := api.New(api.Config{
		Store: store, Owners: b.owners,
		Sealer: root.Sealer(), Hasher: auth.NewHasher(root.KeyPepper()), Token: secret.New(rootToken),
		Vendors: vendors,
		Plane:   b.plane, Audit: audit.New(etcd, audits, versions, zap.NewNop()), Ledger: real, Jobs: b.jobs,
		Batch: b.jobs, Quotas: b.jobs,
		Bodies:  keptBodies{},
		Alerts:  b.alarms,
		Version: "test", Log: zap.NewNop(),
	})
	b.api = api.InProcess(handler, authz.Principal{Name: "root", Scopes: []authz.Scope{authz.Everything}})
	b.terminals = dashboard.Terminals(etcd, dashboard.AccountsOf(store))
	pages := handler
	if real == nil {
		pages = b.ledger.before(handler)
	}
	b.server = httptest.NewUnstartedServer(nil)
	b.server.StartTLS()
	t.Cleanup(b.server.Close)
	b.url = b.server.URL
	b.dashboard = dashboard.New(dashboard.Config{
		API: pages, Etcd: etcd, Accounts: dashboard.AccountsOf(store), RootToken: secret.New(rootToken), BaseURL: b.url,
		Identity: identity.New(identity.Config{Providers: identity.ProvidersOf(store),
			Secret: func(p *configv1.IdentityProvider, _ string) (secret.Value, error) {
				return root.Sealer().Open("IdentityProvider", p.GetName(), "client_secret", p.GetClientSecret().GetSealed())
			}}),
		TraceURL: "https://traces.example/{trace_id}",
		Vendors: []providers.Vendor{{Name: "bedrock", Fields: []string{"region"}}, {Name: "echo"},
			{Name: "openai", Lists: true}},
		Audit: func(_ context.Context, e adminapi.AuditEntry) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.entries = append(b.entries, e)
			return nil
		},
		Gateway: func() (string, http.RoundTripper) {
			if b.gateway == nil {
				return "", nil
			}
			return b.gateway()
		},
		Log: zap.NewNop(),
		Now: b.clock,
	})
	b.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.arrivals.Add(1)
		b.dashboard.ServeHTTP(w, r)
	})
	return b
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// pass moves the clock.
func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// actions returns what was noted of sign-ins, in order.
func (b *bench) actions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, e := range b.entries {
		all = append(all, e.Action)
	}
	return all
}

// A browser keeps cookies and follows no redirect.
type browser struct {
	t      testing.TB
	bench  *bench
	client *http.Client
	csrf   string
}

// A shown page is what the browser got.
type shown struct {
	status   int
	header   http.Header
	body     string
	location string
}

func (b *bench) browser(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := *b.server.Client()
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t: t, bench: b, client: &client}
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

func (w *browser) do(r *http.Request) shown {
	w.t.Helper()
	resp, err := w.client.Do(r)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	if m := csrfField.FindSubmatch(body); m != nil {
		w.csrf = string(m[1])
	}
	return shown{resp.StatusCode, resp.Header, string(body), resp.Header.Get("Location")}
}

func (w *browser) get(path string) shown {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.bench.url+path, http.NoBody)
	require.NoError(w.t, err)
	return w.do(r)
}

// post sends a form as the page that was loaded last would.
func (w *browser) post(path string, fields ...string) shown {
	w.t.Helper()
	form := url.Values{"csrf": {w.csrf}}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return w.postForm(path, form, "Origin", w.bench.url, "Sec-Fetch-Site", "same-origin")
}

func (w *browser) postForm(path string, form url.Values, headers ...string) shown {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.bench.url+path,
		strings.NewReader(form.Encode()))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.do(r)
}

const goodPassword = "correct horse battery"

// owner returns a browser in which the first owner, "ada", is signed in.
func (b *bench) owner(t testing.TB) *browser {
	t.Helper()
	link, err := b.dashboard.FirstLink(t.Context())
	require.NoError(t, err)
	w := b.browser(t)
	path := strings.TrimPrefix(link, b.url)
	require.Equal(t, 200, w.get(path).status)
	u, err := url.Parse(link)
	require.NoError(t, err)
	p := w.post("/sign-in/first", "token", u.Query().Get("token"), "name", "ada", "password", goodPassword)
	require.Equal(t, 303, p.status, text(p.body))
	require.Equal(t, 200, w.get("/").status)
	return w
}

// person makes an account and returns a browser in which it is signed in.
func (b *bench) person(t testing.TB, owner *browser, name, role string) *browser {
	t.Helper()
	owner.get("/new/account")
	p := owner.post("/accounts", "name", name, "role", role, "password", goodPassword)
	require.Equal(t, 303, p.status, text(p.body))
	w := b.browser(t)
	p = w.signIn(name, goodPassword)
	require.Equal(t, 303, p.status, text(p.body))
	require.Equal(t, 200, w.get("/").status)
	return w
}

func (w *browser) signIn(name, password string) shown {
	w.t.Helper()
	w.get("/sign-in")
	return w.post("/sign-in", "name", name, "password", password)
}

var tags = regexp.MustCompile(`<[^>]*>|\s+`)

// text returns what of a page is read.
func text(body string) string { return html.UnescapeString(tags.ReplaceAllString(body, " ")) }

// A ledger is what a test says happened.
type ledger struct {
	summary   adminapi.Summary
	exchanges []adminapi.Exchange
	series    func(q url.Values) adminapi.Series
	budgets   adminapi.Budgets
	attention []adminapi.Attention // nil: the API decides
	incidents []adminapi.Incident  // nil: the API knows
	audit     []adminapi.AuditEntry
	away      bool
	onPut     func()                    // before the API gets it
	health    []adminapi.ProviderHealth // nil: the real ledger's
}

// before answers what asks for the ledger in the place of the API.
func (l *ledger) before(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/admin/v1/")
		var answer any
		switch {
		case path == "summary":
			answer = l.summary
		case path == "requests":
			answer = adminapi.Page[adminapi.Exchange]{Items: l.exchanges}
		case strings.HasPrefix(path, "requests/") && len(l.exchanges) > 0:
			answer = l.exchanges[0]
		case path == "outcomes":
			answer = adminapi.Outcomes{}
		case path == "audit":
			answer = adminapi.Page[adminapi.AuditEntry]{Items: l.audit}
		case strings.HasSuffix(path, "/consumption"):
			used := int64(49)
			answer = adminapi.Consumption{
				Limits: []adminapi.LimitUse{{Scope: "organization/acme", Domain: "requests", Unit: "minute", Limit: 50,
					Used: &used}, {Scope: "key/k", Domain: "concurrency", Limit: 7}},
				Budgets: []adminapi.BudgetUse{{Scope: "key/k", Unit: "day", USD: "1", Spent: "0.81"}},
			}
		case path == "series" && l.series != nil:
			answer = l.series(r.URL.Query())
		case path == "series":
			answer = adminapi.Series{}
		case path == "budgets":
			answer = l.budgets
		case path == "health" && l.health != nil:
			answer = adminapi.Health{Providers: l.health}
		case path == "incidents" && l.incidents != nil:
			answer = adminapi.Incidents{Items: l.incidents}
		case path == "attention" && l.attention != nil:
			answer = adminapi.Attentions{Items: l.attention}
		default:
			if r.Method == http.MethodPut && l.onPut != nil {
				l.onPut()
			}
			api.ServeHTTP(w, r)
			return
		}
		if l.away {
			httpapi.WriteError(w, r, &openai.Error{Status: http.StatusServiceUnavailable, Message: "The ledger is away."})
			return
		}
		_ = httpapi.WriteJSON(w, http.StatusOK, answer)
	})
}

// jobs are the batches and jobs that a test says there are.
type jobs struct {
	batches, tuning []adminapi.TenantObject
	failures        []adminapi.BatchFailure
	events          []json.RawMessage
}

func (j *jobs) Batch(context.Context, string) (adminapi.TenantObject, error) {
	return j.batches[0], nil
}

func (j *jobs) CancelBatch(context.Context, string) (adminapi.TenantObject, error) {
	cancelled := j.batches[0]
	cancelled.Object = []byte(strings.ReplaceAll(string(cancelled.Object), "in_progress", "cancelling"))
	j.batches[0] = cancelled
	return cancelled, nil
}

func (j *jobs) BatchFailures(context.Context, string, int) ([]adminapi.BatchFailure, error) {
	return j.failures, nil
}

func (j *jobs) BatchFile(_ context.Context, _, which string) (string, io.ReadCloser, error) {
	return which + ".jsonl", io.NopCloser(strings.NewReader("the " + which)), nil
}

func (j *jobs) Quotas(_ context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantQuotas], error) {
	return adminapi.Page[adminapi.TenantQuotas]{Items: []adminapi.TenantQuotas{{
		Organization: o.Filters["organization"], Project: o.Filters["project"],
		Quotas: []adminapi.QuotaUse{{Name: "open_batches", Used: 17, Limit: 20}, {Name: "files", Limit: 50}},
	}}}, nil
}

func (j *jobs) Batches(context.Context, adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error) {
	return adminapi.Page[adminapi.TenantObject]{Items: j.batches}, nil
}

func (j *jobs) FineTuningJobs(context.Context, adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error) {
	return adminapi.Page[adminapi.TenantObject]{Items: j.tuning}, nil
}

func (j *jobs) FineTuningJob(context.Context, string) (adminapi.TenantObject, error) {
	return j.tuning[0], nil
}

func (j *jobs) FineTuningEvents(context.Context, string, adminapi.ListOptions) (adminapi.Page[json.RawMessage],
	error) {
	return adminapi.Page[json.RawMessage]{Items: j.events}, nil
}

// Chains returns none.
func (*plane) Chains() map[string][]byte { return nil }

// A plane is what a test says of the data plane.
type plane struct {
	clients []adminapi.DataPlaneClient
	panics  bool
	test    func(*configv1.Provider) adminapi.ProviderTest
	keys    func() (int64, map[string]configv1.Object)
}

func (*plane) ObjectError(string, string) string { return "" }

func (p *plane) Keys() (int64, map[string]configv1.Object) {
	if p.keys == nil {
		return 0, nil
	}
	return p.keys()
}

func (p *plane) DataPlane(context.Context) adminapi.DataPlane {
	if p.panics {
		panic("boom")
	}
	return adminapi.DataPlane{Revision: 42, Clients: p.clients}
}

func (p *plane) TestProvider(_ context.Context, o *configv1.Provider) (adminapi.ProviderTest, error) {
	if p.test != nil {
		return p.test(o), nil
	}
	return adminapi.ProviderTest{OK: true, Message: "It answers.", Status: 200, LatencyMS: 123, Models: 7}, nil
}
