// Package tenants is the pages of organizations and of projects, which have the same fields.
//
// The name of a project has its organization before a slash, so routes take the rest of the path.
package tenants

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 110,
		Lines: []page.Line{
			{Group: page.GroupAccess, Path: "/organizations", Name: "Organizations", Scope: authz.ConfigRead, Tenants: true},
			{Group: page.GroupAccess, Path: "/projects", Name: "Projects", Scope: authz.ConfigRead, Tenants: true},
		},
		Routes:    slices.Concat(pages("organizations", "organization"), pages("projects", "project")),
		Templates: templates,
	}
}

// A tenant is an organization or a project, which have the same fields.
type tenant interface {
	configv1.Object
	GetDisplayName() string
	GetLimits() []*configv1.Limit
}

// A tenantData is what the pages of organizations and projects show.
type tenantData struct {
	Path, Label  string // organizations, Organization
	Object       tenant
	New          bool
	Organization string // of a project
	Status       adminapi.Status
	Projects     []adminapi.Item
	KeysQuery    string
	Quotas       []adminapi.QuotaUse // quotas with some use
	Activity     *figures.Activity
}

func tenantOf(path string) tenant {
	if path == "projects" {
		return &configv1.Project{}
	}
	return &configv1.Organization{}
}

// pages returns the pages of organizations, or of projects.
func pages(path, one string) []page.Route {
	label := configv1.KindOf(tenantOf(path)).Name
	list := func(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
		return v.RenderList(w, r, configv1.KindOf(tenantOf(path)), path, label+"s")
	}
	save := func(v *page.Visit, w http.ResponseWriter, r *http.Request, data tenantData, title string) error {
		read := readTenant(r.PostForm, data.Object)
		return v.Save(w, r, data.Object, data.New, read, page.Path(path, data.Object.GetName()),
			func(status int, problem string) error {
				return v.RenderStatus(w, status, "tenant", title, data, problem)
			})
	}
	form := func(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
		data := tenantData{Path: path, Label: label, Object: tenantOf(path), New: true,
			Organization: r.URL.Query().Get("organization")}
		return v.Render(w, "tenant", "New "+strings.ToLower(label), data)
	}
	create := func(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
		data := tenantData{Path: path, Label: label, Object: tenantOf(path), New: true,
			Organization: strings.TrimSpace(r.PostForm.Get("organization"))}
		return save(v, w, r, data, "New "+strings.ToLower(label))
	}
	show := func(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
		data, err := tenantAt(v, r, path, label)
		if err == nil {
			data.Activity, err = figures.ActivityOf(v, r, strings.ToLower(label), data.Object.GetName(), "key", "Key")
		}
		if err != nil {
			return err
		}
		return v.Render(w, "tenant", label+" "+data.Object.GetName(), data)
	}
	change := func(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
		data, err := tenantAt(v, r, path, label)
		if err != nil {
			return err
		}
		return save(v, w, r, data, label+" "+data.Object.GetName())
	}
	return []page.Route{
		page.Get("/"+path, authz.ConfigRead, list),
		page.Post("/"+path, authz.ConfigWrite, create),
		page.Get("/new/"+one, authz.ConfigWrite, form),
		page.Get("/"+path+"/{name...}", authz.ConfigRead, show),
		page.Post("/"+path+"/{name...}", authz.ConfigWrite, change),
	}
}

// quotas returns what an organization or a project uses of its quotas; nothing if it cannot be read.
func quotas(v *page.Visit, r *http.Request, organization, project string) []adminapi.QuotaUse {
	part, err := v.API.Quotas(r.Context(), adminapi.ListOptions{Filters: map[string]string{"organization": organization,
		"project": project}})
	if err != nil {
		return nil
	}
	var used []adminapi.QuotaUse
	for _, item := range part.Items {
		if item.Organization != organization || item.Project != project {
			continue
		}
		for _, q := range item.Quotas {
			if q.Used > 0 {
				used = append(used, q)
			}
		}
	}
	return used
}

// readTenant puts what a form says into an organization or a project. An existing name stays.
func readTenant(f url.Values, t tenant) error {
	name := strings.TrimSpace(f.Get("name"))
	fields := []string{"display_name", "limits", "budgets", "disabled"}
	switch t := t.(type) {
	case *configv1.Organization:
		fields = append(fields, "keys_of_leavers", "successor")
		t.Name = cmp.Or(t.GetName(), name)
	case *configv1.Project:
		t.Name = cmp.Or(t.GetName(), strings.TrimSpace(f.Get("organization"))+"/"+name)
	}
	return forms.Read(f, t, fields...)
}

func tenantAt(v *page.Visit, r *http.Request, path, label string) (tenantData, error) {
	data := tenantData{Path: path, Label: label}
	var err error
	if path == "projects" {
		data.Object, data.Status, err = page.Stored[*configv1.Project](v, r)
	} else {
		data.Object, data.Status, err = page.Stored[*configv1.Organization](v, r)
	}
	if err != nil {
		return data, err
	}
	organization, project, isProject := strings.Cut(data.Object.GetName(), "/")
	data.Organization = organization
	q := url.Values{"organization": {organization}}
	if isProject {
		q.Set("project", project)
	} else if part, err := v.API.ListPage(r.Context(), configv1.KindOf((*configv1.Project)(nil)),
		adminapi.ListOptions{Query: organization + "/", Limit: 500}); err == nil {
		for _, item := range part.Items {
			if strings.HasPrefix(item.Name, organization+"/") {
				data.Projects = append(data.Projects, item)
			}
		}
	}
	data.KeysQuery = q.Encode()
	data.Quotas = quotas(v, r, organization, project)
	return data, nil
}
