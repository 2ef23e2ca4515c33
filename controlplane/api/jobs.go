package api

import (
	"context"
	"fmt"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// jobHandlers show the jobs of all tenants.
type jobHandlers struct{ *server }

func (h jobHandlers) routes() []route {
	return []route{
		{operation: onBatches(h.batches), scope: authz.JobsRead, tenants: queried},
		{operation: onBatch(h.batch), scope: authz.JobsRead, tenants: checked},
		{operation: onBatchFailures(h.batchFailures), scope: authz.JobsRead},
		{operation: onBatchFile(h.batchFile), scope: authz.BodiesRead, timeout: fileTimeout},
		{operation: onCancelBatch(h.cancelBatch), scope: authz.JobsWrite, tenants: checked},
		{operation: onQuotas(h.quotas), scope: authz.JobsRead, tenants: queried},
		{operation: onFineTuningJobs(h.fineTuningJobs), scope: authz.JobsRead, tenants: queried},
		{operation: onFineTuningJob(h.fineTuningJob), scope: authz.JobsRead, tenants: checked},
		{operation: onFineTuningEvents(h.fineTuningEvents), scope: authz.JobsRead},
	}
}

func (h jobHandlers) quotas(ctx context.Context, o adminapi.ListOptions) (adminapi.QuotasPage, error) {
	return h.config.Quotas.Quotas(ctx, o)
}

func (h jobHandlers) batches(ctx context.Context, o adminapi.ListOptions) (adminapi.TenantPage, error) {
	return h.config.Jobs.Batches(ctx, o)
}

func (h jobHandlers) fineTuningJobs(ctx context.Context, o adminapi.ListOptions) (adminapi.TenantPage, error) {
	return h.config.Jobs.FineTuningJobs(ctx, o)
}

func (h jobHandlers) fineTuningJob(ctx context.Context, id string) (adminapi.TenantObject, error) {
	job, err := h.config.Jobs.FineTuningJob(ctx, id)
	if err == nil && !authz.SeesTenant(ctx, job.Organization, job.Project) {
		err = fmt.Errorf("%s: %w", id, configstore.ErrNotFound)
	}
	return job, err
}

func (h jobHandlers) fineTuningEvents(ctx context.Context, id string,
	o adminapi.ListOptions) (adminapi.EventPage, error) {
	return h.config.Jobs.FineTuningEvents(ctx, id, o)
}
