// Package catalogue is the page of the models that the gateway knows.
//
// A model here is not one that clients can name: those are on the page Models. A provider has to serve it.
package catalogue

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place: 115,
		Lines: []page.Line{
			{Group: "Routing", Path: "/catalogue", Name: "Catalogue", Scope: authz.ConfigRead},
		},
		Routes:    []page.Route{page.Get("/catalogue", authz.ConfigRead, list)},
		Templates: templates,
		Functions: template.FuncMap{"use": usePath,
			"word": func(word string) string { return strings.ReplaceAll(word, "_", " ") }},
	}
}

// A catalogueData is what the page shows.
type catalogueData struct {
	adminapi.Catalogue
	Query url.Values
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	o := adminapi.ListOptions{Query: strings.TrimSpace(q.Get("q")),
		Filters: map[string]string{"vendor": q.Get("vendor"), "capability": q.Get("capability")}}
	if q.Get("served") != "" {
		o.Filters["served"] = "true"
	}
	all, err := v.API.Catalogue(r.Context(), o)
	if err != nil {
		return err
	}
	return v.Render(w, "catalogue", "Catalogue", catalogueData{all, q})
}

// usePath returns the form that makes a model usable, with what is known filled in: that of a model if a provider
// serves it, and that of a provider of the vendor otherwise.
func usePath(m adminapi.CatalogueModel) string {
	name := strings.Trim(m.Name, "*")
	if len(m.Providers) == 0 {
		return "/new/provider?" + url.Values{"vendor": {m.Vendor}, "model": {name}}.Encode()
	}
	return "/new/model?" + url.Values{"name": {name}, "provider": {m.Providers[0]}, "model": {name}}.Encode()
}
