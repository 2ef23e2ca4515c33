package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

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
	Quotas       []adminapi.QuotaUse // of which something is used
	Activity     *activity
}

func tenantOf(path string) tenant {
	if path == "projects" {
		return &configv1.Project{}
	}
	return &configv1.Organization{}
}

// tenants returns the pages of organizations, or of projects.
func tenants(path string) (list, form, create, show, change page) {
	label := configv1.KindOf(tenantOf(path)).Name
	list = func(v *visit, w http.ResponseWriter, r *http.Request) error {
		data, err := v.list(r, configv1.KindOf(tenantOf(path)))
		if err != nil {
			return err
		}
		return v.render(w, path, label+"s", data)
	}
	form = func(v *visit, w http.ResponseWriter, r *http.Request) error {
		data := tenantData{Path: path, Label: label, Object: tenantOf(path), New: true,
			Organization: r.URL.Query().Get("organization")}
		return v.render(w, "tenant", "New "+strings.ToLower(label), data)
	}
	create = func(v *visit, w http.ResponseWriter, r *http.Request) error {
		data := tenantData{Path: path, Label: label, Object: tenantOf(path), New: true,
			Organization: strings.TrimSpace(r.PostForm.Get("organization"))}
		err := readTenant(r.PostForm, data.Object)
		if err == nil {
			err = v.create(r, data.Object)
		}
		if message, ok := refused(err); ok {
			return v.renderStatus(w, http.StatusUnprocessableEntity, "tenant", "New "+strings.ToLower(label), data, message)
		}
		return v.done(w, r, err, pathTo(path, data.Object.GetName()), "created")
	}
	show = func(v *visit, w http.ResponseWriter, r *http.Request) error {
		data, err := v.aTenant(r, path, label)
		if err == nil {
			data.Activity, err = v.activityOf(r, strings.ToLower(label), data.Object.GetName(), "key", "Key")
		}
		if err != nil {
			return err
		}
		return v.render(w, "tenant", label+" "+data.Object.GetName(), data)
	}
	change = func(v *visit, w http.ResponseWriter, r *http.Request) error {
		data, err := v.aTenant(r, path, label)
		if err != nil {
			return err
		}
		if err = readTenant(r.PostForm, data.Object); err == nil {
			_, err = v.api.Put(r.Context(), data.Object, revisionOf(r))
		}
		if message, ok := refused(err); ok {
			return v.renderStatus(w, http.StatusUnprocessableEntity, "tenant", label+" "+data.Object.GetName(), data, message)
		}
		return v.done(w, r, err, pathTo(path, data.Object.GetName()), "saved")
	}
	return list, form, create, show, change
}

// quotas returns what an organization or a project uses of its quotas; nothing where it cannot be read.
func (v *visit) quotas(r *http.Request, organization, project string) []adminapi.QuotaUse {
	page, err := v.api.Quotas(r.Context(), adminapi.ListOptions{Filters: map[string]string{"organization": organization,
		"project": project}})
	if err != nil {
		return nil
	}
	var used []adminapi.QuotaUse
	for _, item := range page.Items {
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

// readTenant puts what a form says into an organization or a project. Its name stays, where it has one.
func readTenant(f url.Values, t tenant) error {
	limits, err := limitsOf(f)
	displayName, budgets, disabled := strings.TrimSpace(f.Get("display_name")), budgetsOf(f), f.Get("disabled") != ""
	name := strings.TrimSpace(f.Get("name"))
	switch t := t.(type) {
	case *configv1.Organization:
		t.DisplayName, t.Limits, t.Budgets, t.Disabled = displayName, limits, budgets, disabled
		if t.Name == "" {
			t.Name = name
		}
	case *configv1.Project:
		t.DisplayName, t.Limits, t.Budgets, t.Disabled = displayName, limits, budgets, disabled
		if t.Name == "" {
			t.Name = strings.TrimSpace(f.Get("organization")) + "/" + name
		}
	}
	return err
}

func (v *visit) aTenant(r *http.Request, path, label string) (tenantData, error) {
	data := tenantData{Path: path, Label: label}
	var err error
	if path == "projects" {
		data.Object, data.Status, err = stored[*configv1.Project](v, r)
	} else {
		data.Object, data.Status, err = stored[*configv1.Organization](v, r)
	}
	if err != nil {
		return data, err
	}
	organization, project, isProject := strings.Cut(data.Object.GetName(), "/")
	data.Organization = organization
	q := url.Values{"organization": {organization}}
	if isProject {
		q.Set("project", project)
	} else if page, err := v.api.ListPage(r.Context(), configv1.KindOf((*configv1.Project)(nil)),
		adminapi.ListOptions{Query: organization + "/", Limit: 500}); err == nil {
		for _, item := range page.Items {
			if strings.HasPrefix(item.Name, organization+"/") {
				data.Projects = append(data.Projects, item)
			}
		}
	}
	data.KeysQuery = q.Encode()
	data.Quotas = v.quotas(r, organization, project)
	return data, nil
}
