package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Jobs are the batches and fine-tuning jobs of all tenants. The options of lists are those of the methods of the same
// names of [adminapi.Client]. It must be safe for concurrent use.
type Jobs interface {
	Batches(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error)
	FineTuningJobs(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantObject], error)
	// FineTuningJob returns one. The error is a 404 where there is none.
	FineTuningJob(ctx context.Context, id string) (adminapi.TenantObject, error)
	FineTuningEvents(ctx context.Context, id string, o adminapi.ListOptions) (adminapi.Page[json.RawMessage], error)
}

// OneBatch shows and cancels one batch of any tenant. It returns a 404 if there is none. It must be safe for
// concurrent use.
type OneBatch interface {
	Batch(ctx context.Context, id string) (adminapi.TenantObject, error)
	// CancelBatch asks for the end of a batch.
	CancelBatch(ctx context.Context, id string) (adminapi.TenantObject, error)
	// BatchFailures returns up to limit failed requests.
	BatchFailures(ctx context.Context, id string, limit int) ([]adminapi.BatchFailure, error)
	// BatchFile opens a file of a batch: input, output or error.
	BatchFile(ctx context.Context, id, which string) (name string, content io.ReadCloser, err error)
}

// Quotas are what tenants keep at the job service. It must be safe for concurrent use.
type Quotas interface {
	// Quotas returns what organizations, projects and keys without an organization have of what they may have.
	Quotas(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.TenantQuotas], error)
}

func (s *server) quotas(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, s.config.Quotas.Quotas)
}

func (s *server) batches(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, s.config.Jobs.Batches)
}

func (s *server) fineTuningJobs(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, s.config.Jobs.FineTuningJobs)
}

func (s *server) fineTuningJob(w http.ResponseWriter, r *http.Request) error {
	job, err := s.config.Jobs.FineTuningJob(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if !authz.SeesTenant(r.Context(), job.Organization, job.Project) {
		return fmt.Errorf("%s: %w", r.PathValue("id"), configstore.ErrNotFound)
	}
	return httpapi.WriteJSON(w, http.StatusOK, job)
}

func (s *server) fineTuningEvents(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, func(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[json.RawMessage], error) {
		return s.config.Jobs.FineTuningEvents(ctx, r.PathValue("id"), o)
	})
}

// paged answers with a page of a list.
func paged[T any](w http.ResponseWriter, r *http.Request,
	list func(context.Context, adminapi.ListOptions) (adminapi.Page[T], error)) error {
	asked, err := optionsOf(r)
	if err != nil {
		return err
	}
	page, err := list(r.Context(), asked)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, page)
}
