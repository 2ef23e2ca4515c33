package page_test

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/controlplane/dashboard/page/pagetest"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// weather is a section like those of the folders: it has what a section can have.
func weather() page.Section {
	return page.Section{
		Lines: []page.Line{{Group: page.GroupOverview, Path: "/weather", Name: "Weather", Scope: authz.ConfigRead}},
		Routes: []page.Route{
			page.Get("/weather", authz.ConfigRead, func(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
				return v.RenderList(w, r, configv1.KindOf((*configv1.Model)(nil)), "weather", "The weather")
			}),
			page.Post("/weather/{what}", authz.ConfigWrite, change),
		},
		Templates: fstest.MapFS{
			"weather.html": {Data: []byte(`{{define "content"}}{{range .Data.Items}}{{template "one" .Name}}{{end}}{{end}}`)},
			"shared.html":  {Data: []byte(`{{define "one"}}<p>{{loud .}}</p>{{end}}`)},
		},
		Functions: template.FuncMap{"loud": func(s string) string { return s + "!" }},
		Notices:   map[string]string{"changed": "The weather has changed."},
	}
}

func change(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	what := r.PathValue("what")
	err := map[string]error{
		"internal": errors.New("the password is hunter2"),
		"waiting":  &adminapi.WaitingError{},
		"missing":  &openai.Error{Status: http.StatusNotFound, Message: "There is no such weather."},
		"throttled": &openai.Error{Status: http.StatusTooManyRequests, Message: "Too many.",
			RetryAfter: 1500 * time.Millisecond},
	}[what]
	return v.Done(w, r, err, v.PageOf(configv1.KindOf((*configv1.Route)(nil)), r.PostForm.Get("name")), "changed")
}

// models plays an admin API with one model.
func models(w http.ResponseWriter, _ *http.Request) {
	_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Item]{Items: []adminapi.Item{
		{Name: "<sun>", Object: &configv1.Model{Name: "<sun>"}}}})
}

func TestASectionAddsItsPages(t *testing.T) {
	owner := pagetest.New(weather(), http.HandlerFunc(models), &configv1.Account{Name: "ada", Role: configv1.Role_OWNER})
	shown := owner.Get("/weather?done=changed")
	require.Equal(t, http.StatusOK, shown.Code)
	for _, part := range []string{"<p>&lt;sun&gt;!</p>", "<title>The weather · Modelgate</title>",
		`<a href="/weather" aria-current="page">Weather</a>`, "The weather has changed."} {
		require.Contains(t, shown.Body.String(), part)
	}
	require.NotContains(t, owner.Get("/weather?done=else").Body.String(), `role="status"`)

	moved := owner.Post("/weather/x", url.Values{"name": {"a b/c"}})
	require.Equal(t, http.StatusSeeOther, moved.Code)
	require.Equal(t, "/objects/Route/a%20b/c?done=changed", moved.Header().Get("Location"))
}

// keys plays an admin API with one key that has a name for people.
func keys(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/admin/v1/keys/key_1" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Item{Name: "key_1",
		Object: &configv1.Key{Name: "key_1", DisplayName: "ci & co"}})
}

func TestPagesShowNamesInPlaceOfIDs(t *testing.T) {
	names := page.Section{
		Routes: []page.Route{page.Get("/names", "", func(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
			return v.Render(w, "names", "Names", "key/key_1 and key_2")
		})},
		Templates: fstest.MapFS{"names.html": {Data: []byte(
			`{{define "content"}}<p>{{.Named .Data}}</p>{{template "ref" (.Ref "Key" "key_1" "")}}{{end}}`)}},
	}
	shown := pagetest.New(names, http.HandlerFunc(keys), &configv1.Account{Name: "ada", Role: configv1.Role_OWNER}).
		Get("/names").Body.String()
	require.Contains(t, shown, "<p>key/ci &amp; co and key_2</p>", "what is not there has no name")
	require.Contains(t, shown, `title="key_1">ci &amp; co</a>`)
}

func TestASectionIsForThoseWhoMay(t *testing.T) {
	as := func(role configv1.Role, of ...*configv1.Membership) *pagetest.Browser {
		return pagetest.New(weather(), http.HandlerFunc(models),
			&configv1.Account{Name: "vera", Role: role, Memberships: of})
	}
	require.Equal(t, http.StatusOK, as(configv1.Role_VIEWER).Get("/weather").Code)
	require.Equal(t, http.StatusForbidden, as(configv1.Role_VIEWER).Post("/weather/x", nil).Code)
	tenant := as(configv1.Role_ROLE_UNSPECIFIED, &configv1.Membership{Organization: "acme", Role: configv1.Role_MEMBER})
	require.NotContains(t, tenant.Get("/weather").Body.String(), `href="/weather"`, "the line is not for tenants")
}

func TestErrorsAreShownWithoutInternals(t *testing.T) {
	owner := pagetest.New(weather(), http.HandlerFunc(models), &configv1.Account{Name: "ada", Role: configv1.Role_OWNER})
	internal := owner.Post("/weather/internal", nil)
	require.Equal(t, http.StatusInternalServerError, internal.Code)
	require.NotContains(t, internal.Body.String(), "hunter2")

	missing := owner.Post("/weather/missing", nil)
	require.Equal(t, http.StatusNotFound, missing.Code)
	require.Contains(t, missing.Body.String(), "There is no such weather.")

	require.Equal(t, "2", owner.Post("/weather/throttled", nil).Header().Get("Retry-After"))
	waiting := owner.Post("/weather/waiting", nil)
	require.Equal(t, http.StatusSeeOther, waiting.Code)
	require.Equal(t, page.Approvals+"?done=waiting", waiting.Header().Get("Location"))
}

func TestTwoSectionsCannotHaveOneTemplate(t *testing.T) {
	require.PanicsWithValue(t, "two sections have the template weather", func() {
		page.NewSite(page.Config{Static: func(string) string { return "" }}, []page.Section{weather(), weather()})
	})
}
