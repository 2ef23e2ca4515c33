package admin

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// approvals lists the changes that wait.
func (s *server) approvals(w http.ResponseWriter, r *http.Request) error {
	items, err := s.changes.Approvals().List(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Approval]{Items: items})
}

func (s *server) approval(w http.ResponseWriter, r *http.Request) error {
	found, err := s.changes.Approvals().Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, found)
}

func (s *server) approve(w http.ResponseWriter, r *http.Request) error {
	done, of, err := s.changes.Approvals().Approve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	return s.writeEntry(w, r, http.StatusOK, *done.Entry(of.Kind, of.Name))
}

func (s *server) reject(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.RejectRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	rejected, err := s.changes.Approvals().Reject(r.Context(), r.PathValue("id"), asked.Reason)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, rejected)
}

func (s *server) withdraw(w http.ResponseWriter, r *http.Request) error {
	if err := s.changes.Approvals().Withdraw(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeWaiting answers that a change waits.
func writeWaiting(w http.ResponseWriter, a *adminapi.Approval) error {
	return httpapi.WriteJSON(w, http.StatusAccepted, adminapi.Waiting{Pending: true, Approval: *a})
}
