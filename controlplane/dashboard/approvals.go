package dashboard

import (
	"errors"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
)

// pathApprovals is the page of changes that wait for approval.
const pathApprovals = "/approvals"

func (v *visit) approvals(w http.ResponseWriter, r *http.Request) error {
	return v.showApprovals(w, r, http.StatusOK, "")
}

func (v *visit) showApprovals(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	all, err := v.api.Approvals(r.Context())
	if err != nil {
		return err
	}
	return v.renderStatus(w, status, "approvals", "Approvals", all, problem)
}

// decide does what a button of a change that waits says.
func (v *visit) decide(w http.ResponseWriter, r *http.Request) error {
	var err error
	var done string
	id := r.PathValue("id")
	switch r.PostForm.Get("action") {
	case "approve":
		_, err = v.api.Approve(r.Context(), id)
		done = "approved"
	case "reject":
		err = v.api.Reject(r.Context(), id, r.PostForm.Get("reason"))
		done = "rejected"
	case "withdraw":
		err = v.api.Withdraw(r.Context(), id)
		done = "withdrawn"
	default:
		return errNoPage
	}
	if e, ok := errors.AsType[*openai.Error](err); ok && e.Status < http.StatusInternalServerError {
		return v.showApprovals(w, r, http.StatusUnprocessableEntity, e.Message)
	}
	return v.done(w, r, err, pathApprovals, done)
}

// waits leads whoever has changed something that waits for approval to the page that shows it. It is false for other
// errors.
func (v *visit) waits(w http.ResponseWriter, r *http.Request, err error) bool {
	if _, ok := errors.AsType[*adminapi.WaitingError](err); !ok {
		return false
	}
	http.Redirect(w, r, pathApprovals+"?done=waiting", http.StatusSeeOther)
	return true
}
