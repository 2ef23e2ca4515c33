package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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

func kindOf(r *http.Request) (configv1.Kind, error) {
	for _, k := range configv1.Kinds() {
		if k.Plural == r.PathValue("kind") {
			return k, nil
		}
	}
	return configv1.Kind{}, openai.CodeUnknownKind.New("This kind of object does not exist. The kinds are the paths of %s, in the plural and in lower case.",
		configv1.KindNames())
}

// objectOf returns the object that a path is about, for a caller who has the scope for it.
func objectOf(r *http.Request, scope func(configv1.Kind) authz.Scope) (config.Ref, error) {
	kind, err := kindOf(r)
	if err != nil {
		return config.Ref{}, err
	}
	if err := authz.NeedsKind(r.Context(), kind, scope(kind)); err != nil {
		return config.Ref{}, err
	}
	if r.PathValue("name") == "" {
		return config.Ref{}, openai.CodeUnknownURL.New("The path must end with the name of the object.")
	}
	return config.Ref{Kind: kind, Name: r.PathValue("name")}, nil
}

func (s *server) get(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.ReadScope)
	if err != nil {
		return err
	}
	entry, err := s.config.Store.Get(r.Context(), of.Kind, of.Name)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	if !p.Sees(entry.Object) {
		return fmt.Errorf("%s %s: %w", of.Kind.Name, of.Name, configstore.ErrNotFound)
	}
	if tags := r.Header.Get("If-None-Match"); tags != "" && matches(tags, &entry) {
		w.Header().Set("ETag", etag(entry.Revision))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return s.writeEntry(w, r, http.StatusOK, entry)
}

// post creates an object. Keys and tokens of administration have handlers of their own.
func (s *server) post(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	if err := authz.NeedsKind(r.Context(), kind, authz.WriteScope(kind)); err != nil {
		return err
	}
	object, err := s.body(w, r, kind)
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := s.changes.Create(r.Context(), object, dryRun)
	if err != nil {
		return err
	}
	return s.answerStored(w, r, done, config.Ref{Kind: kind, Name: object.GetName()}, dryRun)
}

func (s *server) put(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.WriteScope)
	if err != nil {
		return err
	}
	object, err := s.body(w, r, of.Kind)
	if err != nil {
		return err
	}
	if object.GetName() != of.Name {
		return openai.CodeInvalidObject.On("name", "The object's name must be the name in the path, %q.",
			of.Name)
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := s.changes.Put(r.Context(), object, dryRun, preconditionOf(r))
	if err != nil {
		return err
	}
	return s.answerStored(w, r, done, of, dryRun)
}

func (s *server) body(w http.ResponseWriter, r *http.Request, kind configv1.Kind) (configv1.Object, error) {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	return kind.ParseJSON(body)
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
	// It is shown as this request stored it, also where another has changed it since.
	return s.writeEntry(w, r, status, *done.Entry(of.Kind, of.Name))
}

func locationOf(of config.Ref) string {
	return "/admin/v1/" + of.Kind.Plural + "/" + strings.ReplaceAll(url.PathEscape(of.Name), "%2F", "/")
}

func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.WriteScope)
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := s.changes.Delete(r.Context(), of, dryRun, preconditionOf(r))
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// preconditionOf returns the condition that the headers of a request set.
func preconditionOf(r *http.Request) config.Condition {
	return func(stored *configstore.Entry) error { return precondition(r, stored) }
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

func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }

func (s *server) writeEntry(w http.ResponseWriter, r *http.Request, status int, e configstore.Entry) error {
	w.Header().Set("ETag", etag(e.Revision))
	return httpapi.WriteJSON(w, status, s.item(r.Context(), e))
}

// item is what the API shows the caller of what is stored.
func (s *server) item(ctx context.Context, e configstore.Entry) adminapi.Item {
	item := adminapi.Item{Kind: e.Kind, Name: e.Name, Status: adminapi.Status{Revision: e.Revision}}
	if e.Object != nil {
		p, _ := authz.PrincipalOf(ctx)
		item.Object = redact.Object(p.Shown(e.Object))
	}
	item.Status.Error = s.config.Plane.ObjectError(e.Kind.Name, e.Name)
	if e.Err != nil {
		item.Status.Error = e.Err.Error()
	}
	return item
}
