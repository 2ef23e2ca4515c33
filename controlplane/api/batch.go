package api

import (
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
	"github.com/modelgate/modelgate/internal/httpapi"
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
func (h jobHandlers) batch(w http.ResponseWriter, r *http.Request) error {
	found, err := h.findBatch(r)
	if err != nil {
		return err
	}
	details := adminapi.BatchDetails{TenantObject: found}
	if h.config.Ledger != nil {
		var created struct {
			At int64 `json:"created_at"`
		}
		if err := json.Unmarshal(found.Object, &created); err != nil {
			return err
		}
		cost, err := h.config.Ledger.BatchCost(r.Context(), r.PathValue("id"), found.Key, time.Unix(created.At, 0))
		if err == nil {
			details.Cost = &cost
		}
	}
	return httpapi.WriteJSON(w, http.StatusOK, details)
}

// findBatch returns the batch of a path, if the caller may see it.
func (h jobHandlers) findBatch(r *http.Request) (adminapi.TenantObject, error) {
	found, err := h.config.Batch.Batch(r.Context(), r.PathValue("id"))
	if err == nil && !authz.SeesTenant(r.Context(), found.Organization, found.Project) {
		err = fmt.Errorf("%s %s: %w", kindBatch, r.PathValue("id"), configstore.ErrNotFound)
	}
	return found, err
}

func (h jobHandlers) batchFailures(w http.ResponseWriter, r *http.Request) error {
	failures, err := h.config.Batch.BatchFailures(r.Context(), r.PathValue("id"), maxFailures)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.BatchFailure]{Items: failures})
}

// cancelBatch asks for the end of a batch. The audit log says it first, so that no batch is cancelled without an
// entry.
func (h jobHandlers) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	found, err := h.findBatch(r)
	if err != nil {
		return err
	}
	about := authz.Within(found.Organization, found.Project)
	if err := h.note(r.Context(), actionCancel, kindBatch, id, "", about...); err != nil {
		return err
	}
	cancelled, err := h.config.Batch.CancelBatch(r.Context(), id)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, cancelled)
}

// batchFile answers with a file of a batch. It has what clients sent or got, so that nobody sees any without an entry
// in the audit log.
func (h jobHandlers) batchFile(w http.ResponseWriter, r *http.Request) error {
	id, which := r.PathValue("id"), r.PathValue("which")
	if which != "input" && which != "output" && which != "error" {
		return openai.CodeInvalidValue.On("which", "The file %.64q is unknown. Give input, output or error.",
			which)
	}
	found, err := h.findBatch(r)
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
