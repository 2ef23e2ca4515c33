// Package catalogue is the page of the models that the gateway knows.
//
// A model here is not one that clients can name: those are on the page Models. A provider has to serve it.
package catalogue

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
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
		Place: 80,
		Lines: []page.Line{
			{Group: page.GroupModels, Path: "/catalogue", Name: "Catalogue", Scope: authz.ConfigRead},
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
	Query       url.Values
	Found       int // how many match, of which Items are a page
	Next, First string
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
	data := catalogueData{Catalogue: all, Query: q, Found: len(all.Items)}
	skipped, _ := strconv.Atoi(q.Get("after")) // 0: the first page
	data.Items, data.Next, data.First = pageOf(r, all.Items, skipped)
	return v.Render(w, "catalogue", "Catalogue", data)
}

// pageOf returns the models of a page, and the addresses of the next page and of the first.
func pageOf(r *http.Request, all []adminapi.CatalogueModel, skipped int) ([]adminapi.CatalogueModel, string, string) {
	after, rest := "", all[min(max(skipped, 0), len(all)):]
	if len(rest) > page.Size {
		after, rest = strconv.Itoa(max(skipped, 0)+page.Size), rest[:page.Size]
	}
	next, first := page.Pages(r, after)
	return rest, next, first
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
