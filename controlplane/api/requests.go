package api

import (
	"context"
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
func (h requestHandlers) findings(ctx context.Context, asked adminapi.ListOptions) (adminapi.Findings, error) {
	asked, err := h.queries.Search(ctx, asked)
	if err != nil {
		return adminapi.Findings{}, err
	}
	leave, err := authz.TakeTurn(ctx, h.sums, "findings are summed up")
	if err != nil {
		return adminapi.Findings{}, err
	}
	defer leave()
	return fromLedger(h.config.Ledger.Findings(ctx, asked))
}

// requestHandlers show the request log, and what was found in it.
type requestHandlers struct{ *server }

func (h requestHandlers) routes() []route {
	return []route{
		{operation: onTestPolicies(h.testPolicies), scope: authz.UsageRead, needs: h.hasLedger,
			timeout: exportTimeout},
		{operation: onRequests(h.requests), scope: authz.UsageRead, needs: h.hasLedger, timeout: streamTimeout,
			tenants: queried},
		{operation: onRequest(h.request), scope: authz.UsageRead, needs: h.hasLedger, tenants: checked},
		{operation: onOutcomes(h.outcomes), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: queried},
		{operation: onFindings(h.findings), scope: authz.UsageRead, needs: h.hasLedger, timeout: exportTimeout,
			tenants: queried},
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
func (h requestHandlers) request(ctx context.Context, id string) (adminapi.Exchange, error) {
	e, found, err := h.config.Ledger.Exchange(ctx, id)
	switch {
	case err != nil:
		return e, ledger.Unavailable(err)
	case !found || !authz.SeesTenant(ctx, e.Organization, e.Project):
		return e, openai.CodeNotFound.New("There is no exchange %q in the request log.", id)
	}
	h.queries.NameKey(&e)
	e.Why = e.Explain().Sentence
	e.Cost, err = h.queries.CostOf(ctx, &e)
	return e, err
}

// outcomes counts the request log.
func (h requestHandlers) outcomes(ctx context.Context, asked adminapi.ListOptions) (adminapi.Outcomes, error) {
	asked, err := h.queries.Search(ctx, asked)
	if err != nil {
		return adminapi.Outcomes{}, err
	}
	return fromLedger(h.config.Ledger.Outcomes(ctx, asked))
}

// fromLedger returns what the ledger answers.
func fromLedger[T any](answer T, err error) (T, error) {
	if err != nil {
		err = ledger.Unavailable(err)
	}
	return answer, err
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
