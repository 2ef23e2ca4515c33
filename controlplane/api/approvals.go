package api

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// approvalHandlers decide about changes that wait for a second person.
type approvalHandlers struct{ *server }

func (h approvalHandlers) routes() []route {
	return []route{
		{pattern: "GET /admin/v1/approvals", scope: authz.KeysRead, handler: h.approvals, tenants: checked},
		{pattern: "GET /admin/v1/approvals/{id}", scope: authz.KeysRead, handler: h.approval, tenants: checked},
		{pattern: "DELETE /admin/v1/approvals/{id}", scope: authz.KeysWrite, handler: h.withdraw, tenants: checked},
		{pattern: "POST /admin/v1/approvals/{id}/approve", scope: authz.AdminsWrite, handler: h.approve, writes: true,
			tenants: checked},
		{pattern: "POST /admin/v1/approvals/{id}/reject", scope: authz.AdminsWrite, handler: h.reject, tenants: checked},
	}
}

// approvals lists the changes that wait.
func (h approvalHandlers) approvals(w http.ResponseWriter, r *http.Request) error {
	items, err := h.changes.Approvals().List(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Approval]{Items: items})
}

func (h approvalHandlers) approval(w http.ResponseWriter, r *http.Request) error {
	found, err := h.changes.Approvals().ByID(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, found)
}

func (h approvalHandlers) approve(w http.ResponseWriter, r *http.Request) error {
	done, of, err := h.changes.Approvals().Approve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := h.await(w, r, done); err != nil {
		return err
	}
	return h.writeEntry(w, r, http.StatusOK, *done.Entry(of.Kind, of.Name))
}

func (h approvalHandlers) reject(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.RejectRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	rejected, err := h.changes.Approvals().Reject(r.Context(), r.PathValue("id"), asked.Reason)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, rejected)
}

func (h approvalHandlers) withdraw(w http.ResponseWriter, r *http.Request) error {
	if err := h.changes.Approvals().Withdraw(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
