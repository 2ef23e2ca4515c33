package admin

import (
	"net/http"

	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// findings sums up what rules of guardrails and policies have found, for few callers at a time, because it reads many
// requests.
func (s *server) findings(w http.ResponseWriter, r *http.Request) error {
	asked, err := s.searchOf(r)
	if err != nil {
		return err
	}
	leave, err := authz.TakeTurn(r.Context(), s.sums, "findings are summed up")
	if err != nil {
		return err
	}
	defer leave()
	sums, err := s.config.Ledger.Findings(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, sums)
}
