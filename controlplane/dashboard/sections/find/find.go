// Package find is the finder of pages and objects.
//
// It finds no more than the person may see: it asks the API as that person.
package find

import (
	"embed"
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place: 210,
		Routes: []page.Route{
			page.Get("/find", "", show),
			page.Get("/find/names", "", names),
		},
		Templates: templates,
	}
}

// maxFound is how many objects of a kind are found.
const maxFound = 5

// A finding is a page or an object that somebody looked for.
type finding struct{ What, Name, Path string }

// A findData is what the finder shows.
type findData struct {
	Query string
	Found []finding
}

// find lists the pages, and the objects that somebody may see, with all words of the query.
func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := findData{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	data.Found = findPages(v, data.Query)
	if len(data.Query) > 1 { // a single letter is in nearly every name
		data.Found = append(data.Found, findIDs(v, data.Query)...)
		for _, kind := range configv1.Kinds() {
			if kind.Plural == "listings" || !v.Principal.May(authz.ReadScope(kind)) {
				continue
			}
			part, err := v.API.ListPage(r.Context(), kind, adminapi.ListOptions{Query: data.Query, Limit: maxFound})
			if err != nil {
				return err
			}
			for _, item := range part.Items {
				data.Found = append(data.Found, finding{kind.Name, item.Title(), v.PageOf(kind, item.Name)})
			}
		}
	}
	return v.Render(w, "find", "Find", data)
}

func findPages(v *page.Visit, query string) (found []finding) {
	words := strings.Fields(strings.ToLower(query))
	for _, group := range v.Navigation() {
		for _, item := range group.Items {
			all := true
			for _, word := range words {
				all = all && strings.Contains(strings.ToLower(group.Name+" "+item.Name), word)
			}
			if all {
				found = append(found, finding{"Page", item.Name, item.Path})
			}
		}
	}
	return found
}

// findIDs returns the pages of the objects with this id: a batch, a fine-tuning job, or a request.
func findIDs(v *page.Visit, query string) []finding {
	switch {
	case strings.ContainsAny(query, " /") || len(query) < 8:
		return nil
	case strings.HasPrefix(query, "batch_") && v.Principal.May(authz.JobsRead):
		return []finding{{"Batch", query, page.Path("batches", query)}}
	case strings.HasPrefix(query, "ftjob-") && v.Principal.May(authz.JobsRead):
		return []finding{{"Fine-tuning job", query, page.Path("fine-tuning", query)}}
	case v.Principal.May(authz.UsageRead):
		return []finding{{"Request with the id", query, "/requests?request_id=" + url.QueryEscape(query)}}
	}
	return nil
}
