package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// await waits until the data plane has taken what was done, and says in a header who has not in time. What does not
// concern the data plane is not waited for.
func (s *server) await(w http.ResponseWriter, r *http.Request, done *config.Plan) error {
	wait, said, err := waitOf(r)
	if err != nil {
		return err
	}
	if !said && slices.ContainsFunc(done.Changes,
		func(c adminapi.Change) bool { return c.Kind == configv1.KeyKind().Name }) {
		wait = keyWait
	}
	revision := done.Newest()
	if wait == 0 || s.config.Await == nil || revision == 0 || !slices.ContainsFunc(done.Changes, travels) {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if missing := s.config.Await(ctx, revision); len(missing) > 0 {
		w.Header().Set(adminapi.HeaderPending, strings.Join(missing, ", "))
	}
	return nil
}

// travels reports whether a change concerns the data plane.
func travels(c adminapi.Change) bool {
	return c.Kind != configv1.KindOf((*configv1.Account)(nil)).Name &&
		c.Kind != configv1.KindOf((*configv1.AdminToken)(nil)).Name
}

// item returns a stored object as the API shows it to the caller.
func (s *server) item(ctx context.Context, e configstore.Entry) adminapi.Item {
	item := adminapi.Item{Kind: e.Kind, Name: e.Name, Status: adminapi.Status{Revision: e.Revision}}
	if e.Object != nil {
		p, _ := authz.PrincipalOf(ctx)
		item.Object = redact.Object(p.Shown(e.Object))
	}
	item.Status.Error = s.queries.ObjectError(e)
	if s.config.Owners != nil {
		item.Status.DeclaredBy = s.config.Owners.Of(e.Kind, e.Name)
	}
	return item
}

func (s *server) writeEntry(w http.ResponseWriter, r *http.Request, status int, e configstore.Entry) error {
	w.Header().Set("ETag", etag(e.Revision))
	return httpapi.WriteJSON(w, status, s.item(r.Context(), e))
}

// answerStored shows an object as it was stored, or the changes of a dry run.
func (s *server) answerStored(w http.ResponseWriter, r *http.Request, done *config.Plan, of config.Ref,
	dryRun bool) error {
	if dryRun {
		return writeChanges(w, done)
	}
	if waits := done.Waits(of); waits != nil {
		return writeWaiting(w, waits)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	status := http.StatusOK
	if done.Changes[0].Action == adminapi.Created {
		status = http.StatusCreated
		w.Header().Set("Location", locationOf(of))
	}
	// It is shown as this request stored it, also if another has changed it since.
	return s.writeEntry(w, r, status, *done.Entry(of.Kind, of.Name))
}

// answerMade answers with the new object, or with the changes of a dry run.
func (s *server) answerMade(w http.ResponseWriter, r *http.Request, done *config.Plan, of config.Ref, dryRun bool,
	made any) error {
	if dryRun {
		return writeChanges(w, done)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	w.Header().Set("Location", locationOf(of))
	w.Header().Set("ETag", etag(done.Revision))
	return httpapi.WriteJSON(w, http.StatusCreated, made)
}

// writeChanges answers with the changes of a plan.
func writeChanges(w http.ResponseWriter, p *config.Plan) error {
	answer := adminapi.ApplyAnswer{Revision: p.Revision, Changes: p.Changes}
	if answer.Changes == nil {
		answer.Changes = []adminapi.Change{}
	}
	status := http.StatusOK
	if p.Pending() {
		status = http.StatusAccepted
	}
	return httpapi.WriteJSON(w, status, answer)
}

// writeWaiting answers that a change waits.
func writeWaiting(w http.ResponseWriter, a *adminapi.Approval) error {
	return httpapi.WriteJSON(w, http.StatusAccepted, adminapi.Waiting{Pending: true, Approval: *a})
}

func locationOf(of config.Ref) string {
	return "/admin/v1/" + of.Kind.Plural + "/" + strings.ReplaceAll(url.PathEscape(of.Name), "%2F", "/")
}

func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }

func matches(tags string, stored *configstore.Entry) bool {
	if stored == nil {
		return false
	}
	for tag := range strings.SplitSeq(tags, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(stored.Revision) {
			return true
		}
	}
	return false
}

// precondition checks If-Match and If-None-Match (RFC 9110, section 13.1) against what is stored, which may be nil.
func precondition(r *http.Request, stored *configstore.Entry) error {
	if want := r.Header.Get("If-Match"); want != "" && !matches(want, stored) {
		return openai.CodePreconditionFailed.New(
			"If-Match does not match the object: it was changed or deleted. Read it again.")
	}
	if not := r.Header.Get("If-None-Match"); not != "" && matches(not, stored) {
		return openai.CodePreconditionFailed.New("The object already exists, which If-None-Match does not allow.")
	}
	return nil
}

// preconditionOf returns the condition that the headers of a request set.
func preconditionOf(r *http.Request) config.Condition {
	return func(stored *configstore.Entry) error { return precondition(r, stored) }
}
