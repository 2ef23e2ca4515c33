// Package pagetest serves the pages of a section to a test, over an admin API that the test plays.
//
// It has no sessions and no tokens of forms: those belong to the shell, and the shell's tests have them.
package pagetest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A Browser is used by a person who is signed in.
type Browser struct {
	site    *page.Site
	api     http.Handler
	account *configv1.Account
}

// New returns the browser of a person for the pages of a section.
func New(s page.Section, api http.Handler, person *configv1.Account) *Browser {
	c := page.Config{API: api, Static: func(name string) string { return "/static/" + name }, Log: zap.NewNop(),
		Now: time.Now}
	return &Browser{page.NewSite(c, []page.Section{s}), api, person}
}

// Get asks for a page.
func (b *Browser) Get(path string) *httptest.ResponseRecorder {
	return b.do(httptest.NewRequest(http.MethodGet, path, http.NoBody))
}

// Post sends a form.
func (b *Browser) Post(path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(r)
}

func (b *Browser) do(r *http.Request) *httptest.ResponseRecorder {
	mux, w := http.NewServeMux(), httptest.NewRecorder()
	for _, route := range b.site.Routes() {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			v := b.site.Visit(r, "")
			v.Account, v.Principal = b.account, authz.PrincipalOfAccount(b.account, "", "192.0.2.1")
			v.API = api.InProcess(b.api, v.Principal)
			err := r.ParseForm()
			if err == nil {
				err = route.Serve(v, w, r)
			}
			if err != nil {
				v.ShowError(w, r, err)
			}
		})
	}
	mux.ServeHTTP(w, r)
	return w
}
