package admin

import (
	"context"
	"errors"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/httpapi"
)

func (s *server) apply(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	docs, err := configv1.ParseJSON(body)
	if err != nil {
		return err
	}
	done, err := s.applyDocuments(r.Context(), docs, r.URL.Query().Get("dry_run") == "true")
	if err != nil {
		return err
	}
	answer := adminapi.ApplyAnswer{Revision: done.revision, Changes: done.changes}
	if answer.Changes == nil {
		answer.Changes = []adminapi.Change{}
	}
	return httpapi.WriteJSON(w, http.StatusOK, answer)
}

// applyDocuments reports everything that is wrong with any document at once.
func (s *server) applyDocuments(ctx context.Context, docs []configv1.Document, dryRun bool) (*plan, error) {
	return s.write(ctx, dryRun, func(p *plan) error {
		var errs configv1.Errors
		for _, d := range docs {
			err := p.put(d.Object)
			invalid, ok := errors.AsType[configv1.Errors](err)
			if err != nil && !ok {
				return err
			}
			errs = append(errs, invalid...)
		}
		return errs.Err()
	})
}
