package batches

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func notFound(id string) error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
		Message: fmt.Sprintf("No batch found with id '%s'.", id)}
}

func (s *Service) read(ctx context.Context, c rest.Caller, id string) (*store.Record[Batch], error) {
	r, err := Kind.Get(ctx, s.Store, c.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound(id)
	}
	return r, err
}

func (s *Service) get(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	b, err := s.read(r.Context(), c, r.PathValue("id"))
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, show(b))
}

func (s *Service) list(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	p, err := rest.PageOf(r, 20, 100, false)
	if err != nil {
		return err
	}
	page, more, err := Kind.List(r.Context(), s.Store, c.Tenant, p, nil)
	if err != nil {
		return rest.Cursor(err, p.After)
	}
	return httpapi.WriteJSON(w, http.StatusOK, rest.ListOf(page, more, show))
}

func (s *Service) cancel(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	id := r.PathValue("id")
	b, err := Cancel(r.Context(), s.Store, c.Tenant, id, s.Now())
	if errors.Is(err, store.ErrNotFound) {
		return notFound(id)
	}
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, show(b))
}

// asked makes a batch one that is to be cancelled, and reports whether it was none yet.
func asked(b *Batch, now time.Time) (changed bool, err error) {
	status := b.Status
	if b.Closing != nil && b.Closing.Reason == expired && !status.Over() {
		status = job.BatchExpired // as good as
	}
	switch next, ok := status.Next(job.BatchCancel); {
	case !ok:
		return false, &openai.Error{Status: http.StatusConflict, Type: openai.TypeInvalidRequest, NoRetry: true,
			Message: fmt.Sprintf("Cannot cancel a batch with status '%s'.", status)}
	case next == status:
		return false, nil
	}
	return true, b.to(job.BatchCancel, now)
}
