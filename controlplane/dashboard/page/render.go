package page

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Errors that pages answer with.
var (
	ErrNoPage     = &openai.Error{Status: http.StatusNotFound, Message: "This page does not exist."}
	ErrNotAllowed = &openai.Error{Status: http.StatusForbidden,
		Message: "Your role does not allow this. An owner can change it."}
)

// A view is what templates render.
type view struct {
	Title   string
	CSRF    string
	Theme   string
	Path    string
	Account *configv1.Account
	Role    string
	Nav     []Group
	Notice  string // what was done
	Problem string // what is wrong with the form
	Undo    *Undo  // of what was done
	// Range is the part of an address that leads to the same time on another page.
	Range template.URL
	Data  any

	principal authz.Principal
	visit     *Visit
}

// Ref returns what a page shows of an object that something else names.
func (v view) Ref(kind, name, label string) Ref { return v.visit.ref(kind, name, label) }

// Named returns a text with the names of keys and tokens in place of their ids.
func (v view) Named(text string) string { return v.visit.named(text) }

// May reports whether the visitor has a scope.
func (v view) May(scope string) bool { return v.principal.May(authz.Scope(scope)) }

// MayHistory reports whether the visitor may see versions of objects, which are not for people of a tenant.
func (v view) MayHistory() bool {
	return v.principal.May(authz.AuditRead) && v.principal.Tenant.IsAll()
}

// Tenant returns the tenant that restricts the visitor's rights. It may be empty.
func (v view) Tenant() string { return v.principal.Tenant.String() }

// Render answers with a page.
func (v *Visit) Render(w http.ResponseWriter, name, title string, data any) error {
	return v.RenderStatus(w, http.StatusOK, name, title, data, "")
}

// RenderStatus is Render with a status and a problem.
func (v *Visit) RenderStatus(w http.ResponseWriter, status int, name, title string, data any, problem string) error {
	t, ok := v.site.templates[name]
	if !ok {
		return fmt.Errorf("there is no template %s", name)
	}
	vw := view{
		Title: title, CSRF: v.FormToken, Theme: v.Theme,
		Path: v.request.URL.RequestURI(), Account: v.Account, Role: v.Principal.Role, Notice: v.notice(), Problem: problem,
		Undo:  v.undo(),
		Range: v.Range, Data: data, principal: v.Principal, visit: v,
	}
	if v.Account != nil {
		vw.Nav = v.Navigation()
	}
	// Of a page that htmx refreshes only the part that it names is rendered.
	block := "layout"
	if part := v.request.Header.Get("HX-Target"); part != "" && t.Lookup("part-"+part) != nil {
		block = "part-" + part
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, block, vw); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "HX-Target")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser has gone away
	return nil
}

// ShowError answers with a page that says what is wrong, without internals.
func (v *Visit) ShowError(w http.ResponseWriter, r *http.Request, err error) {
	if _, waits := errors.AsType[*adminapi.WaitingError](err); waits {
		http.Redirect(w, r, Approvals+"?done=waiting", http.StatusSeeOther)
		return
	}
	log := v.site.config.Log
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		if r.Context().Err() == nil {
			log.Error("dashboard: a page failed", zap.String("method", telemetry.Clip(r.Method)),
				zap.String("path", telemetry.Clip(r.URL.Path)), zap.Error(err))
		}
		e = &openai.Error{Status: http.StatusInternalServerError,
			Message: "The gateway failed to show this page. Its log contains the cause."}
	}
	if e.Status == http.StatusNotFound && e.Code == openai.CodeUnknownKind {
		e = ErrNoPage
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", e.Header().Get("Retry-After"))
	}
	data := struct {
		Status  int
		Message string
	}{e.Status, e.Message}
	if err := v.RenderStatus(w, e.Status, "error", http.StatusText(e.Status), data, ""); err != nil {
		log.Error("dashboard: the page of an error failed", zap.Error(err))
		http.Error(w, "The gateway failed to show this page.", http.StatusInternalServerError)
	}
}

// Refused returns what the API says is wrong with what somebody sent, for the form to show. It is false for other
// errors.
func Refused(err error) (string, bool) {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.Status < 400 || e.Status >= 500 || e.Status == http.StatusForbidden ||
		e.Status == http.StatusUnauthorized || e.Status == http.StatusNotFound {
		return "", false
	}
	if e.Status == http.StatusPreconditionFailed {
		return "Another user changed this object after you opened it. Reload the page to see the current state.", true
	}
	return e.Message, true
}

// Unavailable turns the error of something that is unavailable just now into words: the rest of the page is shown all
// the same.
func Unavailable(err error) (string, error) {
	if e, ok := errors.AsType[*openai.Error](err); ok && (e.Status >= 500 || e.Status == http.StatusNotFound) {
		return e.Message, nil
	}
	return "", err
}

// GoTo leads on after something was done. Done names a notice.
func (v *Visit) GoTo(w http.ResponseWriter, r *http.Request, path, done string) error {
	if done != "" {
		path += "?done=" + done
		if v.Pending {
			path += "&pending=true"
		}
		if v.changed != "" {
			path += "&undo=" + url.QueryEscape(v.changed)
		}
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

// Done is GoTo if there is no error.
func (v *Visit) Done(w http.ResponseWriter, r *http.Request, err error, path, done string) error {
	if err != nil {
		return err
	}
	return v.GoTo(w, r, path, done)
}

// Save stores the object of a form, a new one or one that is there, unless the form could not be read. What the API
// refuses is shown again with the form.
func (v *Visit) Save(w http.ResponseWriter, r *http.Request, o configv1.Object, isNew bool, read error, path string,
	again func(status int, problem string) error) error {
	err, done := read, "saved"
	switch {
	case err != nil:
	case isNew:
		err, done = v.Create(r, o), "created"
	default:
		_, err = v.API.Put(r.Context(), o, Revision(r))
	}
	if message, ok := Refused(err); ok {
		return again(http.StatusUnprocessableEntity, message)
	}
	v.Changed(o)
	return v.Done(w, r, err, path, done)
}
