package dashboard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A visit is a request of the shell's own pages, which may begin and end sessions. It is used by one goroutine.
type visit struct {
	*Dashboard
	*page.Visit
	session *session // nil: not signed in
}

// Errors that the shell answers with.
var (
	errForm   = openai.CodeStaleForm.New("The form did not come from this dashboard, or you signed in or out after you opened it. Go back, reload the page and try again.")
	errUnread = &openai.Error{Status: http.StatusBadRequest,
		Message: "The form cannot be read. It may be too large."}
)

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
		for _, values := range r.PostForm {
			for i := range values { // browsers end the lines of a text so
				values[i] = strings.ReplaceAll(values[i], "\r\n", "\n")
			}
		}
		token = r.PostForm.Get("csrf")
	}
	if v.FormToken == "" || subtle.ConstantTimeCompare([]byte(token), []byte(v.FormToken)) != 1 {
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
