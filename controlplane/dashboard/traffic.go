package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A pageData is what a list that is no list of objects shows.
type pageData[T any] struct {
	Items       []T
	Query       url.Values
	Next, First string
	Filters     []string
	Away        string
	Live        bool // whether something in it is under way
}

// Filtered reports whether only a part is asked for.
func (d pageData[T]) Filtered() bool {
	for _, name := range append([]string{"after"}, d.Filters...) {
		if d.Query.Get(name) != "" {
			return true
		}
	}
	return false
}

// pageOf asks for a part of a list, as the query of the address says.
func pageOf[T any](r *http.Request, ask func(adminapi.ListOptions) (adminapi.Page[T], error),
	filters ...string) (pageData[T], error) {
	q := r.URL.Query()
	o := adminapi.ListOptions{After: q.Get("after"), Limit: pageSize, Filters: map[string]string{}}
	for _, name := range filters {
		o.Filters[name] = strings.TrimSpace(q.Get(name))
	}
	page, err := ask(o)
	data := pageData[T]{Items: page.Items, Query: q, Filters: filters}
	data.Next, data.First = pages(r, page.Next)
	data.Away, err = away(err)
	return data, err
}

func (v *visit) auditLog(w http.ResponseWriter, r *http.Request) error {
	data, err := pageOf(r, func(o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) {
		return v.api.Audit(r.Context(), o)
	}, "actor", "action", "kind", "name")
	if err != nil {
		return err
	}
	return v.render(w, "audit", "Audit log", data)
}

// A planeData is what the page of the data plane shows.
type planeData struct {
	adminapi.DataPlane
	Away string
}

func (v *visit) dataPlane(w http.ResponseWriter, r *http.Request) error {
	plane, err := v.api.DataPlane(r.Context())
	data := planeData{DataPlane: plane}
	if data.Away, err = away(err); err != nil {
		return err
	}
	return v.render(w, "data-plane", "Data plane", data)
}
