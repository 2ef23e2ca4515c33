package api

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// findings sums up what rules of guardrails and policies have found, for few callers at a time, because it reads many
// requests.
func (h requestHandlers) findings(w http.ResponseWriter, r *http.Request) error {
	asked, err := h.searchOf(r)
	if err != nil {
		return err
	}
	leave, err := authz.TakeTurn(r.Context(), h.sums, "findings are summed up")
	if err != nil {
		return err
	}
	defer leave()
	sums, err := h.config.Ledger.Findings(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, sums)
}

// requestHandlers show the request log, and what was found in it.
type requestHandlers struct{ *server }

func (h requestHandlers) routes() []route {
	return []route{
		{pattern: "POST /admin/v1/policies/test", scope: authz.UsageRead, handler: h.requireLedger(h.testPolicies),
			timeout: exportTimeout},
		{pattern: "GET /admin/v1/requests", scope: authz.UsageRead, handler: h.requireLedger(h.requests),
			timeout: streamTimeout, tenants: queried},
		{pattern: "GET /admin/v1/requests/{id}", scope: authz.UsageRead, handler: h.requireLedger(h.request),
			tenants: checked},
		{pattern: "GET /admin/v1/outcomes", scope: authz.UsageRead, handler: h.requireLedger(h.outcomes),
			timeout: exportTimeout, tenants: queried},
		{pattern: "GET /admin/v1/findings", scope: authz.UsageRead, handler: h.requireLedger(h.findings),
			timeout: exportTimeout, tenants: queried},
	}
}

// requests answers with a part of the request log, or with all of it as CSV or as lines of JSON.
func (h requestHandlers) requests(w http.ResponseWriter, r *http.Request) error {
	form, err := streamOf(r)
	if err != nil {
		return err
	}
	asked, err := h.searchOf(r)
	if err != nil {
		return err
	}
	page, err := h.config.Ledger.Exchanges(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	h.queries.NameKeys(page.Items)
	if form == "" {
		return httpapi.WriteJSON(w, http.StatusOK, page)
	}
	return h.stream(w, r, form, asked, page)
}

// searchOf reads the query of a search.
func (h requestHandlers) searchOf(r *http.Request) (adminapi.ListOptions, error) {
	asked, err := optionsOf(r)
	if err != nil {
		return asked, err
	}
	return h.queries.Search(r.Context(), asked)
}

// request answers with one exchange.
func (h requestHandlers) request(w http.ResponseWriter, r *http.Request) error {
	e, found, err := h.config.Ledger.Exchange(r.Context(), r.PathValue("id"))
	switch {
	case err != nil:
		return ledger.Unavailable(err)
	case !found || !authz.SeesTenant(r.Context(), e.Organization, e.Project):
		return openai.CodeNotFound.New("There is no exchange %q in the request log.", r.PathValue("id"))
	}
	e.KeyName = h.queries.KeyName(e.Key)
	if e.Cost, err = h.queries.CostOf(r.Context(), &e); err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, e)
}

// outcomes counts the request log.
func (h requestHandlers) outcomes(w http.ResponseWriter, r *http.Request) error {
	asked, err := h.searchOf(r)
	if err != nil {
		return err
	}
	counts, err := h.config.Ledger.Outcomes(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, counts)
}

// maxTried bounds the bytes of policies that are tried.
const maxTried = 8 << 20

// testPolicies says what policies would have done with the requests of the log.
func (h requestHandlers) testPolicies(w http.ResponseWriter, r *http.Request) error {
	if err := authz.Needs(r.Context(), authz.ConfigRead); err != nil { // stored policies can be tried
		return err
	}
	asked, err := h.searchOf(r)
	if err != nil {
		return err
	}
	body, err := httpapi.ReadBody(w, r, maxTried)
	if err != nil {
		return err
	}
	docs, err := configv1.ParseJSON(body)
	if err != nil {
		return err
	}
	answer, err := h.queries.TryPolicies(r.Context(), docs, asked)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, answer)
}
