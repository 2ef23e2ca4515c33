package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// maxFailures is how many failed requests of a batch are shown.
	maxFailures = 100
	// fileTimeout bounds the download of a file, which may be large.
	fileTimeout = 10 * time.Minute

	kindBatch    = "Batch"
	actionCancel = "cancel"
)

// batch answers with a batch. Its cost is absent if the ledger is unavailable.
func (h jobHandlers) batch(ctx context.Context, id string) (details adminapi.BatchDetails, err error) {
	if details.TenantObject, err = h.findBatch(ctx, id); err != nil {
		return details, err
	}
	if h.config.Ledger != nil {
		var created struct {
			At int64 `json:"created_at"`
		}
		if err := json.Unmarshal(details.Object, &created); err != nil {
			return details, err
		}
		cost, err := h.config.Ledger.BatchCost(ctx, id, details.Key, time.Unix(created.At, 0))
		if err == nil {
			details.Cost = &cost
		}
	}
	return details, nil
}

// findBatch returns a batch, if the caller may see it.
func (h jobHandlers) findBatch(ctx context.Context, id string) (adminapi.TenantObject, error) {
	found, err := h.config.Batch.Batch(ctx, id)
	if err == nil && !authz.SeesTenant(ctx, found.Organization, found.Project) {
		err = fmt.Errorf("%s %s: %w", kindBatch, id, configstore.ErrNotFound)
	}
	return found, err
}

func (h jobHandlers) batchFailures(ctx context.Context, id string) (adminapi.BatchFailures, error) {
	failures, err := h.config.Batch.BatchFailures(ctx, id, maxFailures)
	return adminapi.BatchFailures{Items: failures}, err
}

// cancelBatch asks for the end of a batch. The audit log says it first, so that no batch is cancelled without an
// entry.
func (h jobHandlers) cancelBatch(ctx context.Context, id string) (adminapi.TenantObject, error) {
	found, err := h.findBatch(ctx, id)
	if err != nil {
		return found, err
	}
	about := authz.Within(found.Organization, found.Project)
	if err := h.note(ctx, actionCancel, kindBatch, id, "", about...); err != nil {
		return found, err
	}
	return h.config.Batch.CancelBatch(ctx, id)
}

// batchFile answers with a file of a batch. It has what clients sent or got, so that nobody sees any without an entry
// in the audit log.
func (h jobHandlers) batchFile(w http.ResponseWriter, r *http.Request) error {
	id, which := r.PathValue("id"), r.PathValue("which")
	if which != "input" && which != "output" && which != "error" {
		return openai.CodeInvalidValue.On("which", "The file %.64q is unknown. Give input, output or error.",
			which)
	}
	found, err := h.findBatch(r.Context(), id)
	if err != nil {
		return err
	}
	name, content, err := h.config.Batch.BatchFile(r.Context(), id, which)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it was only read
	about := authz.Within(found.Organization, found.Project)
	if err := h.note(r.Context(), actionLook, kindBatch, id, which+" file", about...); err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // the caller must not take a part for the whole
	}
	return nil
}
