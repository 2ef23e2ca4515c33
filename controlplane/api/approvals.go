package api

import (
	"context"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// approvalHandlers decide about changes that wait for a second person.
type approvalHandlers struct{ *server }

func (h approvalHandlers) routes() []route {
	return []route{
		{operation: onApprovals(h.approvals), scope: authz.KeysRead, tenants: checked},
		{operation: onApproval(h.approval), scope: authz.KeysRead, tenants: checked},
		{operation: onWithdraw(h.withdraw), scope: authz.KeysWrite, tenants: checked},
		{operation: onApprove(h.approve), scope: authz.AdminsWrite, tenants: checked},
		{operation: onReject(h.reject), scope: authz.AdminsWrite, tenants: checked},
	}
}

// approvals lists the changes that wait.
func (h approvalHandlers) approvals(ctx context.Context) (adminapi.ApprovalPage, error) {
	items, err := h.changes.Approvals().List(ctx)
	return adminapi.ApprovalPage{Items: items}, err
}

func (h approvalHandlers) approval(ctx context.Context, id string) (adminapi.Approval, error) {
	return h.changes.Approvals().ByID(ctx, id)
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

func (h approvalHandlers) reject(ctx context.Context, id string,
	asked adminapi.RejectRequest) (adminapi.Approval, error) {
	return h.changes.Approvals().Reject(ctx, id, asked.Reason)
}

func (h approvalHandlers) withdraw(ctx context.Context, id string) error {
	return h.changes.Approvals().Withdraw(ctx, id)
}
