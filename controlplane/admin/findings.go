package admin

import (
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// findings sums up what rules of guardrails and policies have found, for one caller at a time: it reads many requests.
func (s *server) findings(w http.ResponseWriter, r *http.Request) error {
	asked, err := s.searchOf(r)
	if err != nil {
		return err
	}
	if s.sums.Acquire(r.Context(), 1) != nil {
		return &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeRequests,
			Code:    openai.CodeRateLimitExceeded,
			Message: "Findings are being summed up for others. Please retry.", RetryAfter: 10 * time.Second}
	}
	defer s.sums.Release(1)
	sums, err := s.config.Ledger.Findings(r.Context(), asked)
	if err != nil {
		return ledgerError(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, sums)
}
