package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// exportTimeout bounds a request for CSV, which may read many pages.
const exportTimeout = 30 * time.Second

// usageHandlers show what was used and spent.
type usageHandlers struct{ *server }

func (h usageHandlers) routes() []route {
	return []route{
		{operation: onUsage(h.usage), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: checked},
		{operation: onOrganizationUsage(h.usage), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: checked},
		{operation: onOrganizationCosts(h.costs), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: checked},
		{operation: onSummary(h.summary), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: queried},
		{operation: onSeries(h.series), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: queried},
		{operation: onCacheWorth(h.queries.CacheWorth), scope: authz.UsageRead, needs: h.hasLedger,
			timeout: exportTimeout, tenants: queried},
		{operation: onKeyTraffic(h.keyTraffic), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: checked},
		{operation: onBudgets(h.queries.Budgets), scope: authz.UsageRead, needs: h.hasLedger, tenants: checked},
	}
}

func (h usageHandlers) usage(w http.ResponseWriter, r *http.Request) error {
	return h.report(w, r, r.PathValue("resource"))
}

func (h usageHandlers) costs(w http.ResponseWriter, r *http.Request) error {
	return h.report(w, r, "costs")
}

// report answers a query of usage or costs, as JSON or CSV.
func (h usageHandlers) report(w http.ResponseWriter, r *http.Request, resource string) error {
	query, csv, err := exportOf(r)
	if err != nil {
		return err
	}
	made := func() {}
	if csv {
		leave, err := authz.TakePlace(r.Context(), h.wholes, "exports are running")
		if err != nil {
			return err
		}
		defer leave()
		if made, err = h.export(r.Context()); err != nil {
			return err
		}
		defer func() { made() }()
	}
	caller, _ := authz.PrincipalOf(r.Context())
	within := ledger.Restriction{Organization: caller.Tenant.Organization, Project: caller.Tenant.Project}
	t := table{}
	for {
		text, err := h.config.Ledger.Usage(r.Context(), resource, query.Encode(), within)
		if err != nil {
			return ledger.Unavailable(err)
		}
		if !csv {
			return httpapi.WriteJSON(w, http.StatusOK, json.RawMessage(text))
		}
		var page struct {
			Data []struct {
				Start   json.RawMessage   `json:"start_time"`
				End     json.RawMessage   `json:"end_time"`
				Results []json.RawMessage `json:"results"`
			} `json:"data"`
			Next *string `json:"next_page"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		for _, bucket := range page.Data {
			for _, result := range bucket.Results {
				if err := t.add(object{"start_time", bucket.Start}, object{"end_time", bucket.End},
					object{"", result}); err != nil {
					return err
				}
			}
		}
		if page.Next == nil || *page.Next == "" || len(t.rows) >= maxRows {
			text, err := t.text()
			if err != nil {
				return err
			}
			made() // a client that reads slowly keeps nobody waiting
			return writeTable(w, resource, text)
		}
		query.Set("page", *page.Next)
	}
}

func (h usageHandlers) summary(ctx context.Context, asked adminapi.ListOptions) (adminapi.Summary, error) {
	return fromLedger(h.config.Ledger.Summary(ctx, asked))
}

// keyTraffic answers with what keys did in a time, which is the last day unless the query says otherwise.
func (h usageHandlers) keyTraffic(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badQuery(err)
	}
	asked := params.Of(query)
	keys := asked.List("key")
	from, to := asked.Period()
	if asked.Err != nil {
		return asked.Err
	}
	out, err := h.queries.KeyTraffic(r.Context(), from, to, keys)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, out)
}

// series answers with sums over time. It says of groups what they are called, and which are deleted.
func (h usageHandlers) series(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badQuery(err)
	}
	for _, name := range []string{"start", "end"} {
		if query.Has(name) {
			if _, err := httpapi.UnixTime(name, query.Get(name)); err != nil {
				return err
			}
		}
	}
	out, err := h.config.Ledger.Series(r.Context(), query)
	if err != nil {
		return ledger.Unavailable(err)
	}
	if err := h.queries.NameGroups(r.Context(), &out); err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, out)
}
