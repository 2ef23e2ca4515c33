// Package accounts is the pages of the accounts of people, and of the tokens of programs.
//
// A person's own account is not here: it is a page of the shell, for everybody who is signed in.
package accounts

import (
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 190,
		Lines: []page.Line{
			{Group: page.GroupAccess, Path: "/accounts", Name: "People", Scope: authz.AdminsRead, Tenants: true},
			{Group: page.GroupSettings, Path: "/objects/IdentityProvider", Name: "Identity providers", Scope: authz.AdminsRead},
			{Group: page.GroupSettings, Path: "/tokens", Name: "Admin tokens", Scope: authz.AdminsRead},
		},
		Routes: []page.Route{
			page.Get("/accounts", authz.AdminsRead, list),
			page.Post("/accounts", authz.AdminsWrite, create),
			page.Get("/new/account", authz.AdminsWrite, form),
			page.Get("/accounts/{name...}", authz.AdminsRead, show),
			page.Post("/accounts/{name...}", authz.AdminsWrite, change),
			page.Get("/tokens", authz.AdminsRead, listTokens),
			page.Post("/tokens", authz.AdminsWrite, createToken),
			page.Get("/new/token", authz.AdminsWrite, newToken),
		},
		Templates: templates,
		Functions: template.FuncMap{"roles": roles, "memberships": membershipLines},
	}
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return v.RenderList(w, r, configv1.KindOf((*configv1.Account)(nil)), "accounts", "People")
}

// An accountData is what the pages of one account show.
type accountData struct {
	Person *configv1.Account
	New    bool
	Status adminapi.Status
}

func form(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
	person := &configv1.Account{Role: configv1.Role_VIEWER}
	if t := v.Principal.Tenant; !t.IsAll() {
		person = &configv1.Account{Memberships: []*configv1.Membership{{Organization: t.Organization, Project: t.Project,
			Role: configv1.Role_MEMBER}}}
	}
	return v.Render(w, "account", "New account", accountData{Person: person, New: true})
}

// readAccount puts what a form says into an account. Without a password the one that is stored stays.
func readAccount(f url.Values, a *configv1.Account) (err error) {
	read := forms.Read(f, a, "display_name", "disabled", "read_bodies", "break_glass")
	if a.GetProvisioning() == nil { // else the groups of the person decide
		a.Role = configv1.Role(configv1.Role_value[f.Get("role")])
	}
	if p := f.Get("password"); p != "" {
		a.Password, a.PasswordHash = p, ""
	}
	a.Memberships, err = membershipsOf(f.Get("memberships"))
	return cmp.Or(read, err)
}

func create(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := accountData{Person: &configv1.Account{Name: strings.TrimSpace(r.PostForm.Get("name"))}, New: true}
	return save(v, w, r, data, "New account")
}

// save stores what is in the form.
func save(v *page.Visit, w http.ResponseWriter, r *http.Request, data accountData, title string) error {
	read := readAccount(r.PostForm, data.Person)
	return v.Save(w, r, data.Person, data.New, read, "/accounts", func(status int, problem string) error {
		return v.RenderStatus(w, status, "account", title, data, problem)
	})
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	person, status, err := page.Stored[*configv1.Account](v, r)
	if err != nil {
		return err
	}
	return v.Render(w, "account", "Account "+person.GetName(), accountData{Person: person, Status: status})
}

func change(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	person, status, err := page.Stored[*configv1.Account](v, r)
	if err != nil {
		return err
	}
	return save(v, w, r, accountData{Person: person, Status: status}, "Account "+person.GetName())
}

func roles() []forms.Choice {
	return forms.Choices([][2]string{{"ROLE_UNSPECIFIED", "none: only memberships"}, {"VIEWER", "viewer: reads"},
		{"AUDITOR", "auditor: reads accounts too"},
		{"OPERATOR", "operator: changes everything except accounts"}, {"ADMIN", "admin: manages accounts too"},
		{"OWNER", "owner: everything"}})
}
