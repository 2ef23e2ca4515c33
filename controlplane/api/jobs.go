package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// jobHandlers show the jobs of all tenants.
type jobHandlers struct{ *server }

func (h jobHandlers) routes() []route {
	return []route{
		{pattern: "GET /admin/v1/batches", scope: authz.JobsRead, handler: h.batches, tenants: queried},
		{pattern: "GET /admin/v1/batches/{id}", scope: authz.JobsRead, handler: h.batch, tenants: checked},
		{pattern: "GET /admin/v1/batches/{id}/failures", scope: authz.JobsRead, handler: h.batchFailures},
		{pattern: "GET /admin/v1/batches/{id}/files/{which}", scope: authz.BodiesRead, handler: h.batchFile,
			timeout: fileTimeout},
		{pattern: "POST /admin/v1/batches/{id}/cancel", scope: authz.JobsWrite, handler: h.cancelBatch, tenants: checked},
		{pattern: "GET /admin/v1/quotas", scope: authz.JobsRead, handler: h.quotas, tenants: queried},
		{pattern: "GET /admin/v1/fine_tuning/jobs", scope: authz.JobsRead, handler: h.fineTuningJobs, tenants: queried},
		{pattern: "GET /admin/v1/fine_tuning/jobs/{id}", scope: authz.JobsRead, handler: h.fineTuningJob, tenants: checked},
		{pattern: "GET /admin/v1/fine_tuning/jobs/{id}/events", scope: authz.JobsRead, handler: h.fineTuningEvents},
	}
}

func (h jobHandlers) quotas(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, h.config.Quotas.Quotas)
}

func (h jobHandlers) batches(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, h.config.Jobs.Batches)
}

func (h jobHandlers) fineTuningJobs(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, h.config.Jobs.FineTuningJobs)
}

func (h jobHandlers) fineTuningJob(w http.ResponseWriter, r *http.Request) error {
	job, err := h.config.Jobs.FineTuningJob(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if !authz.SeesTenant(r.Context(), job.Organization, job.Project) {
		return fmt.Errorf("%s: %w", r.PathValue("id"), configstore.ErrNotFound)
	}
	return httpapi.WriteJSON(w, http.StatusOK, job)
}

func (h jobHandlers) fineTuningEvents(w http.ResponseWriter, r *http.Request) error {
	return paged(w, r, func(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[json.RawMessage], error) {
		return h.config.Jobs.FineTuningEvents(ctx, r.PathValue("id"), o)
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
