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
func objectOf(r *http.Request, scope func(configv1.Kind) authz.Scope) (ref, error) {
	kind, err := kindOf(r)
	if err != nil {
		return ref{}, err
	}
	if err := authz.NeedsKind(r.Context(), kind, scope(kind)); err != nil {
		return ref{}, err
	}
	if r.PathValue("name") == "" {
		return ref{}, openai.CodeUnknownURL.New("The path must end with the name of the object.")
	}
	return ref{kind, r.PathValue("name")}, nil
}

func (s *server) get(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.ReadScope)
	if err != nil {
		return err
	}
	entry, err := s.config.Store.Get(r.Context(), of.kind, of.name)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	if !p.Sees(entry.Object) {
		return fmt.Errorf("%s %s: %w", of.kind.Name, of.name, configstore.ErrNotFound)
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
	of := ref{kind, object.GetName()}
	return s.store(w, r, change{refs: []ref{of}}, func(p *plan) error {
		if !p.caller.Sees(object) {
			return authz.NotForTenant(p.caller.Tenant)
		}
		if p.before.Find(kind, of.name) != nil {
			return openai.CodeAlreadyExists.On("name", "%s %s already exists. Replace it with PUT, or choose another name.",
				kind.Name, of.name)
		}
		return p.put(object)
	})
}

func (s *server) put(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.WriteScope)
	if err != nil {
		return err
	}
	object, err := s.body(w, r, of.kind)
	if err != nil {
		return err
	}
	if object.GetName() != of.name {
		return openai.CodeInvalidObject.On("name", "The object's name must be the name in the path, %q.",
			of.name)
	}
	c := change{refs: []ref{of}}
	if k, ok := object.(*configv1.Key); ok {
		c.reads = tenantsOf(k)
	}
	return s.store(w, r, c, func(p *plan) error {
		if err := precondition(r, p.visible(of)); err != nil {
			return err
		}
		return p.put(object)
	})
}

func (s *server) body(w http.ResponseWriter, r *http.Request, kind configv1.Kind) (configv1.Object, error) {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	return kind.ParseJSON(body)
}

// store carries out a change of one object and shows it, or the changes where it is a dry run.
func (s *server) store(w http.ResponseWriter, r *http.Request, c change, decide func(*plan) error) (err error) {
	if c.dryRun, err = boolOf(r, "dry_run"); err != nil {
		return err
	}
	done, err := s.write(r.Context(), c, decide)
	if err != nil {
		return err
	}
	if c.dryRun {
		return writeChanges(w, done)
	}
	of, status := c.refs[0], http.StatusOK
	if waits := done.waits(of); waits != nil {
		return writeWaiting(w, waits)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	if done.changes[0].Action == adminapi.Created {
		status = http.StatusCreated
		w.Header().Set("Location", locationOf(of))
	}
	// It is shown as this request stored it, also where another has changed it since.
	return s.writeEntry(w, r, status, *done.entry(of.kind, of.name))
}

func locationOf(of ref) string {
	return "/admin/v1/" + of.kind.Plural + "/" + strings.ReplaceAll(url.PathEscape(of.name), "%2F", "/")
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
	done, err := s.write(r.Context(), change{refs: []ref{of}, dryRun: dryRun}, func(p *plan) error {
		if err := precondition(r, p.visible(of)); err != nil {
			return err
		}
		if err := p.remove(of); err != nil {
			return err
		}
		return s.checkEmpty(r.Context(), of)
	})
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
