package dashboard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/admin"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// A visit is one request of somebody, and who that is. It is used by one goroutine.
type visit struct {
	*Dashboard
	request   *http.Request
	principal admin.Principal
	session   *session          // nil: not signed in
	account   *configv1.Account // likewise
	api       *adminapi.Client  // likewise
	csrf      string            // what forms must hold
	theme     string            // light, dark, or empty: as the system has it
	pending   bool              // what was changed is not in force everywhere yet
	shown     *span             // the time that the page shows; nil: it shows none
}

// Errors that pages answer with.
var (
	errNoPage = &openai.Error{Status: http.StatusNotFound, Message: "This page does not exist."}
	errForm   = openai.CodeStaleForm.New("The form did not come from this dashboard, or you signed in or out after you opened it. Go back, reload the page and try again.")
	errUnread = &openai.Error{Status: http.StatusBadRequest,
		Message: "The form cannot be read. It may be too large."}
	errNotAllowed = &openai.Error{Status: http.StatusForbidden,
		Message: "Your role does not allow this. An owner can change it."}
)

// A view is what templates render.
type view struct {
	Title   string
	Section string // of the navigation
	CSRF    string
	Theme   string
	Path    string
	Account *configv1.Account
	Role    string
	Nav     []navGroup
	Notice  string // what was done
	Problem string // what is wrong with what was sent
	// Range is the part of an address that leads to the same time on another page.
	Range template.URL
	Data  any

	principal admin.Principal
}

// May reports whether the visitor has a scope.
func (v view) May(scope string) bool { return v.principal.May(admin.Scope(scope)) }

// MayHistory reports whether the visitor may see versions of objects, which are not for people of a tenant.
func (v view) MayHistory() bool {
	return v.principal.May(admin.AuditRead) && v.principal.Tenant.IsAll()
}

// Tenant returns to what the visitor's rights are restricted; empty: nothing.
func (v view) Tenant() string { return v.principal.Tenant.String() }

// render answers with a page.
func (v *visit) render(w http.ResponseWriter, name, title string, data any) error {
	return v.renderStatus(w, http.StatusOK, name, title, data, "")
}

// renderStatus is render with a status, and with what is wrong.
func (v *visit) renderStatus(w http.ResponseWriter, status int, name, title string, data any, problem string) error {
	t, ok := v.pages[name]
	if !ok {
		return fmt.Errorf("there is no template %s", name)
	}
	vw := view{
		Title: title, Section: sectionOf(v.request.URL.Path), CSRF: v.csrf, Theme: v.theme, Path: v.request.URL.RequestURI(),
		Account: v.account, Role: v.principal.Role, Notice: v.notice(), Problem: problem, Data: data,
		principal: v.principal,
	}
	if v.shown != nil {
		vw.Range = v.shown.Query()
	}
	if v.session != nil {
		vw.Nav = navFor(v.principal)
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

// fail answers with a page that says what is wrong, without internals.
func (v *visit) fail(w http.ResponseWriter, r *http.Request, err error) {
	if v.waits(w, r, err) {
		return
	}
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		if r.Context().Err() == nil {
			v.config.Log.Error("dashboard: a page failed", zap.String("method", telemetry.Clip(r.Method)),
				zap.String("path", telemetry.Clip(r.URL.Path)), zap.Error(err))
		}
		e = &openai.Error{Status: http.StatusInternalServerError,
			Message: "The gateway failed to show this page. Its log contains the cause."}
	}
	if e.Status == http.StatusNotFound && e.Code == openai.CodeUnknownKind {
		e = errNoPage
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", e.Header().Get("Retry-After"))
	}
	data := struct {
		Status  int
		Message string
	}{e.Status, e.Message}
	if err := v.renderStatus(w, e.Status, "error", http.StatusText(e.Status), data, ""); err != nil {
		v.config.Log.Error("dashboard: the page of an error failed", zap.Error(err))
		http.Error(w, "The gateway failed to show this page.", http.StatusInternalServerError)
	}
}

// refused returns what the API says is wrong with what somebody sent, for the form to show. It is false for other
// errors.
func refused(err error) (string, bool) {
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

// goTo leads on after something was done. Done names a notice.
func (v *visit) goTo(w http.ResponseWriter, r *http.Request, path, done string) error {
	if done != "" {
		path += "?done=" + done
		if v.pending {
			path += "&pending=true"
		}
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

func (v *visit) toSignIn(w http.ResponseWriter, r *http.Request) {
	target := "/sign-in"
	if r.Method == http.MethodGet && r.URL.Path != "/" && r.Header.Get("HX-Request") == "" {
		target += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", target)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// maxForm is the largest form: an object as YAML.
const maxForm = 1 << 20

// readForm reads the whole body of a request that may change something.
func readForm(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return errUnread
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// checkForm refuses what changes something and is not a form of this dashboard.
func (v *visit) checkForm(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	token := r.Header.Get("X-Form-Token")
	if token == "" {
		if err := r.ParseForm(); err != nil {
			return errUnread
		}
		token = r.PostForm.Get("csrf")
	}
	if v.csrf == "" || subtle.ConstantTimeCompare([]byte(token), []byte(v.csrf)) != 1 {
		return errForm
	}
	return nil
}

// formToken is what forms hold for a cookie that other sites cannot read.
func formToken(cookie string) string {
	sum := sha256.Sum256([]byte("modelgate form\x00" + cookie))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// addressOf returns where a request comes from.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// ownPath returns a path of this dashboard to go to, or "/" where it might lead elsewhere.
func ownPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil {
		return "/"
	}
	return path
}
