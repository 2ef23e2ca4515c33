// Package approvals is the page of changes that wait until somebody else approves them.
//
// Whoever makes such a change is led here by [page.Visit.ShowError].
package approvals

import (
	"embed"
	"errors"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place: 140,
		Lines: []page.Line{
			{Group: page.GroupRules, Path: page.Approvals, Name: "Approvals", Scope: authz.KeysWrite, Tenants: true},
		},
		Routes: []page.Route{
			page.Get(page.Approvals, authz.KeysWrite, list),
			page.Post(page.Approvals+"/{id}", authz.KeysWrite, decide),
		},
		Templates: templates,
		Notices: map[string]string{
			"approved":  "Approved. The data plane uses the change.",
			"rejected":  "Rejected. Nothing is changed.",
			"withdrawn": "Withdrawn. Nothing is changed.",
		},
	}
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return show(v, w, r, http.StatusOK, "")
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request, status int, problem string) error {
	all, err := v.API.Approvals(r.Context())
	if err != nil {
		return err
	}
	return v.RenderStatus(w, status, "approvals", "Approvals", all, problem)
}

// decide does what a button of a change that waits says.
func decide(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	var err error
	var done string
	id := r.PathValue("id")
	switch r.PostForm.Get("action") {
	case "approve":
		_, err = v.API.Approve(r.Context(), id)
		done = "approved"
	case "reject":
		_, err = v.API.Reject(r.Context(), id, adminapi.RejectRequest{Reason: r.PostForm.Get("reason")})
		done = "rejected"
	case "withdraw":
		err = v.API.Withdraw(r.Context(), id)
		done = "withdrawn"
	default:
		return page.ErrNoPage
	}
	if e, ok := errors.AsType[*openai.Error](err); ok && e.Status < http.StatusInternalServerError {
		return show(v, w, r, http.StatusUnprocessableEntity, e.Message)
	}
	return v.Done(w, r, err, page.Approvals, done)
}
