package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/proc"
)

// A fakeAdmin plays the admin API with what a test puts into it. A test changes it before it runs commands.
type fakeAdmin struct {
	objects     []configv1.Object
	errors      map[string]string // by "Kind name"
	plane       adminapi.DataPlane
	summary     adminapi.Summary
	health      adminapi.Health
	tests       map[string]adminapi.ProviderTest
	consumption map[string]adminapi.Consumption
	audit       []adminapi.AuditEntry
	verified    adminapi.AuditVerification
	sinks       adminapi.AuditSinks
	alerts      adminapi.Alerts
	batches     []adminapi.TenantObject
	batch       adminapi.BatchDetails
	failures    []adminapi.BatchFailure
	budgets     adminapi.Budgets
	worth       adminapi.CacheWorth
	traffic     adminapi.KeyTraffic
	quotas      adminapi.QuotasPage
	approvals   []adminapi.Approval
	waits       *adminapi.Approval // of every change
	requests    []adminapi.Exchange
	findings    adminapi.Findings
	attention   []adminapi.Attention
	incidents   []adminapi.Incident
	series      adminapi.Series
	notReady    bool
	ledgerAway  bool
	metrics     string
	pending     string // who has not taken a change
	applied     adminapi.ApplyAnswer
	trial       adminapi.PolicyTrial

	url   string
	mu    sync.Mutex // held while a request is answered
	asked []string   // method and URL of every request
	body  []byte     // of the last that had one
	// tenant is the one that the last request acts for.
	tenant string
}

const fakePage = 2

// startFakeAdmin starts it and goes to a folder whose data folder leads to it.
func startFakeAdmin(t *testing.T) *fakeAdmin {
	t.Helper()
	t.Chdir(t.TempDir())
	f := &fakeAdmin{errors: map[string]string{}, tests: map[string]adminapi.ProviderTest{},
		consumption: map[string]adminapi.Consumption{}}
	f.plane = adminapi.DataPlane{Revision: 7, Version: "v1", Clients: []adminapi.DataPlaneClient{
		{Node: "e", Role: "envoy", Version: "1.40.0", Revision: 7, Health: "ok"}, {Node: "x", Role: "extproc", Version: "v1",
			Revision: 7, Health: "ok"},
	}}
	server := httptest.NewServer(f.handler(t))
	t.Cleanup(server.Close)
	f.url = server.URL
	require.NoError(t, os.Mkdir("data", 0o700))
	require.NoError(t, os.WriteFile(filepath.Join("data", datadir.FileAdmin), []byte(server.URL+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join("data", datadir.FileAdminToken), []byte(adminToken+"\n"), 0o600))
	return f
}

func (f *fakeAdmin) handler(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, of func(r *http.Request) (any, int)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, status := of(r)
			w.Header().Set("Content-Type", "application/json")
			if f.pending != "" && r.Method != http.MethodGet {
				w.Header().Set(adminapi.HeaderPending, f.pending)
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	answer("GET /admin/v1/{kind}", func(r *http.Request) (any, int) { return f.list(r), 200 })
	answer("GET /admin/v1/{kind}/{name...}", func(r *http.Request) (any, int) {
		for _, i := range f.items(r.PathValue("kind")) {
			if i.Name == r.PathValue("name") {
				return i, 200
			}
		}
		return apiError(r.PathValue("kind") + " " + r.PathValue("name") + ": no such object"), 404
	})
	answer("PUT /admin/v1/{kind}/{name...}", func(r *http.Request) (any, int) {
		if f.waits != nil {
			return adminapi.Waiting{Pending: true, Approval: *f.waits}, 202
		}
		return f.put(t, r), 200
	})
	answer("GET /admin/v1/approvals", func(*http.Request) (any, int) {
		return adminapi.Page[adminapi.Approval]{Items: f.approvals}, 200
	})
	answer("GET /admin/v1/approvals/{id}", func(*http.Request) (any, int) { return f.approvals[0], 200 })
	answer("POST /admin/v1/approvals/{id}/approve", func(*http.Request) (any, int) {
		return f.items("organizations")[0], 200
	})
	answer("POST /admin/v1/approvals/{id}/reject", func(*http.Request) (any, int) { return f.approvals[0], 200 })
	answer("DELETE /admin/v1/{kind}/{name...}", func(*http.Request) (any, int) { return struct{}{}, 200 })
	answer("POST /admin/v1/apply", func(*http.Request) (any, int) { return f.applied, 200 })
	answer("POST /admin/v1/policies/test", func(*http.Request) (any, int) { return f.trial, 200 })
	answer("POST /admin/v1/keys", func(*http.Request) (any, int) {
		if f.waits != nil {
			return adminapi.NewKey{ID: "key_new", Key: "sk-mg-new", Pending: true, Approval: f.waits}, 202
		}
		return adminapi.NewKey{ID: "key_new", Key: "sk-mg-new"}, 201
	})
	answer("POST /admin/v1/keys/{id}/rotate", func(r *http.Request) (any, int) {
		return adminapi.NewKey{ID: r.PathValue("id"), Key: "sk-mg-rotated"}, 200
	})
	answer("POST /admin/v1/admintokens", func(*http.Request) (any, int) {
		return adminapi.NewToken{ID: "adm_new", Token: "mgadm"}, 201
	})
	answer("GET /admin/v1/keys/{id}/consumption",
		func(r *http.Request) (any, int) { return f.consumption[r.PathValue("id")], 200 })
	answer("POST /admin/v1/providers/{name}/test", func(r *http.Request) (any, int) {
		return f.tests[r.PathValue("name")], 200
	})
	answer("GET /admin/v1/alerts", func(*http.Request) (any, int) { return f.alerts, 200 })
	answer("GET /admin/v1/alerts/history", func(*http.Request) (any, int) { return adminapi.AlertHistory{}, 200 })
	answer("GET /admin/v1/batches", func(r *http.Request) (any, int) { return page(f.batches, r), 200 })
	answer("GET /admin/v1/batches/{id}", func(*http.Request) (any, int) { return f.batch, 200 })
	answer("GET /admin/v1/batches/{id}/failures", func(r *http.Request) (any, int) { return page(f.failures, r), 200 })
	answer("POST /admin/v1/batches/{id}/cancel", func(*http.Request) (any, int) { return f.batch.TenantObject, 200 })
	answer("GET /admin/v1/budgets", func(*http.Request) (any, int) { return f.budgets, 200 })
	answer("GET /admin/v1/catalogue", func(r *http.Request) (any, int) {
		return adminapi.Catalogue{Items: []adminapi.CatalogueModel{{Name: r.URL.Query().Encode(), Vendor: "openai",
			ContextTokens: 9000, InputUSD: "2", Capabilities: []string{}, Providers: []string{"mine"}}}}, 200
	})
	answer("GET /admin/v1/quotas", func(*http.Request) (any, int) { return f.quotas, 200 })
	answer("GET /admin/v1/dataplane", func(*http.Request) (any, int) { return f.plane, 200 })
	answer("GET /admin/v1/audit", func(r *http.Request) (any, int) { return page(f.audit, r), 200 })
	answer("GET /admin/v1/audit/sinks", func(*http.Request) (any, int) { return f.sinks, 200 })
	answer("GET /admin/v1/audit/verify", func(*http.Request) (any, int) { return f.verified, 200 })
	answer("GET /admin/v1/findings", func(*http.Request) (any, int) { return f.findings, 200 })
	answer("GET /admin/v1/requests", func(r *http.Request) (any, int) { return page(f.requests, r), 200 })
	answer("GET /admin/v1/requests/{id}", func(r *http.Request) (any, int) {
		i := slices.IndexFunc(f.requests, func(e adminapi.Exchange) bool { return e.ID == r.PathValue("id") })
		return f.requests[i], 200
	})
	answer("GET /admin/v1/attention",
		func(*http.Request) (any, int) { return adminapi.Attentions{Items: f.attention}, 200 })
	answer("GET /admin/v1/incidents", func(*http.Request) (any, int) {
		return adminapi.Incidents{Items: f.incidents}, 200
	})
	answer("GET /admin/v1/incidents/{id}", func(*http.Request) (any, int) { return f.incidents[0], 200 })
	answer("POST /admin/v1/incidents/{id}", func(*http.Request) (any, int) { return f.incidents[0], 200 })
	answer("GET /admin/v1/health", func(*http.Request) (any, int) { return f.health, 200 })
	answer("GET /admin/v1/summary", func(*http.Request) (any, int) {
		if f.ledgerAway {
			return apiError("The ledger cannot be reached."), 503
		}
		return f.summary, 200
	})
	answer("GET /admin/v1/cache", func(*http.Request) (any, int) { return f.worth, 200 })
	answer("GET /admin/v1/key-traffic", func(*http.Request) (any, int) { return f.traffic, 200 })
	answer("GET /admin/v1/series", func(*http.Request) (any, int) {
		if f.ledgerAway {
			return apiError("The ledger cannot be reached."), 503
		}
		return f.series, 200
	})
	answer("POST /sign-in/link", func(*http.Request) (any, int) {
		return map[string]any{"url": "https://gw/sign-in/first?token=T", "expires_in_seconds": 3600}, 201
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, f.metrics) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if f.notReady {
			proc.Say(w, http.StatusServiceUnavailable, "not ready: etcd is away")
			return
		}
		proc.Say(w, http.StatusOK, "ready")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked, f.tenant = append(f.asked, r.Method+" "+r.URL.String()), r.Header.Get(adminapi.HeaderTenant)
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			f.body, r.Body = body, io.NopCloser(bytes.NewReader(body))
		}
		if r.URL.Path != "/readyz" && r.URL.Path != "/metrics" && r.Header.Get("Authorization") != "Bearer "+adminToken {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(apiError("Send an admin token."))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func apiError(message string) any {
	return map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil,
		"code": nil}}
}

func (f *fakeAdmin) items(plural string) []adminapi.Item {
	var items []adminapi.Item
	for _, o := range f.objects {
		if kind := configv1.KindOf(o); kind.Plural == plural {
			items = append(items, adminapi.Item{Kind: kind, Name: o.GetName(), Object: o,
				Status: adminapi.Status{Revision: 3, Error: f.errors[configv1.Label(o)]}})
		}
	}
	return items
}

func (f *fakeAdmin) list(r *http.Request) any { return page(f.items(r.PathValue("kind")), r) }

// page returns two at a time, whatever is asked for.
func page[T any](all []T, r *http.Request) adminapi.Page[T] {
	from, _ := strconv.Atoi(r.URL.Query().Get("after"))
	p := adminapi.Page[T]{Items: all[from:min(len(all), from+fakePage)]}
	if from+fakePage < len(all) {
		p.Next = strconv.Itoa(from + fakePage)
	}
	return p
}

func (f *fakeAdmin) put(t *testing.T, r *http.Request) any {
	kind, ok := configv1.FindKind(r.PathValue("kind"))
	require.True(t, ok)
	o, err := kind.ParseJSON(f.body)
	require.NoError(t, err)
	for i := range f.objects {
		if configv1.Label(f.objects[i]) == configv1.Label(o) {
			f.objects[i] = o
		}
	}
	return adminapi.Item{Kind: kind, Name: o.GetName(), Object: o, Status: adminapi.Status{Revision: 4}}
}
