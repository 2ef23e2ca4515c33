package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/admin"
)

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
func (v *visit) find(w http.ResponseWriter, r *http.Request) error {
	data := findData{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	data.Found = v.findPages(data.Query)
	if len(data.Query) > 1 { // a single letter is in nearly every name
		data.Found = append(data.Found, v.findIDs(data.Query)...)
		for _, kind := range configv1.Kinds() {
			if kind.Plural == "listings" || !v.principal.May(admin.ReadScope(kind)) {
				continue
			}
			page, err := v.api.ListPage(r.Context(), kind, adminapi.ListOptions{Query: data.Query, Limit: maxFound})
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				data.Found = append(data.Found, finding{kind.Name, titleOf(item), pageOfObject(kind, item.Name)})
			}
		}
	}
	return v.render(w, "find", "Find", data)
}

func (v *visit) findPages(query string) (found []finding) {
	words := strings.Fields(strings.ToLower(query))
	for _, group := range navFor(v.principal) {
		for _, item := range group.Items {
			all := true
			for _, word := range words {
				all = all && strings.Contains(strings.ToLower(item.Name), word)
			}
			if all {
				found = append(found, finding{"Page", item.Name, item.Path})
			}
		}
	}
	return found
}

// findIDs returns the places of what has the query as its id: a batch, a fine-tuning job, or a request.
func (v *visit) findIDs(query string) []finding {
	switch {
	case strings.ContainsAny(query, " /") || len(query) < 8:
		return nil
	case strings.HasPrefix(query, "batch_") && v.principal.May(admin.JobsRead):
		return []finding{{"Batch", query, pathTo("batches", query)}}
	case strings.HasPrefix(query, "ftjob-") && v.principal.May(admin.JobsRead):
		return []finding{{"Fine-tuning job", query, pathTo("fine-tuning", query)}}
	case v.principal.May(admin.UsageRead):
		return []finding{{"Request with the id", query, "/requests?request_id=" + url.QueryEscape(query)}}
	}
	return nil
}

// titleOf is what people call an object.
func titleOf(item adminapi.Item) string {
	named, ok := item.Object.(interface{ GetDisplayName() string })
	if ok && named.GetDisplayName() != "" {
		return named.GetDisplayName()
	}
	return item.Name
}

// pageOfObject returns the path of an object's page.
func pageOfObject(kind configv1.Kind, name string) string {
	switch kind.Plural {
	case "keys", "organizations", "projects", "providers", "models", "policies", "accounts":
		return pathTo(kind.Plural, name)
	}
	return objectPath("objects", kind.Name, name)
}
