package page

import (
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Size is how many lines a list has.
const Size = 50

// A List is a page that lists objects.
type List struct {
	Items   []adminapi.Item
	Query   url.Values
	Next    string // address of the next page, or empty
	First   string // of the first page, unless this is it
	Filters []string
}

// List reads a page of the objects of a kind, as the query of the address says.
func (v *Visit) List(r *http.Request, kind configv1.Kind, filters ...string) (List, error) {
	q := r.URL.Query()
	o := adminapi.ListOptions{After: q.Get("after"), Limit: Size, Query: strings.TrimSpace(q.Get("q")),
		Filters: map[string]string{}}
	for _, name := range filters {
		o.Filters[name] = q.Get(name)
	}
	page, err := v.API.ListPage(r.Context(), kind, o)
	data := List{Items: page.Items, Query: q, Filters: filters}
	data.Next, data.First = Pages(r, page.Next)
	return data, err
}

// RenderList answers with a page that shows nothing but the objects of a kind.
func (v *Visit) RenderList(w http.ResponseWriter, r *http.Request, kind configv1.Kind, name, title string,
	filters ...string) error {
	data, err := v.List(r, kind, filters...)
	if err != nil {
		return err
	}
	return v.Render(w, name, title, data)
}

// Filtered reports whether only a part of the objects is asked for.
func (d List) Filtered() bool { return filtered(d.Query, append([]string{"q"}, d.Filters...)) }

func filtered(q url.Values, filters []string) bool {
	for _, name := range append([]string{"after"}, filters...) {
		if q.Get(name) != "" {
			return true
		}
	}
	return false
}

// Pages returns the addresses of the next and of the first page of a list.
func Pages(r *http.Request, next string) (nextPage, firstPage string) {
	q := r.URL.Query()
	if q.Get("after") != "" {
		q.Del("after")
		firstPage = r.URL.Path + "?" + q.Encode()
	}
	if next != "" {
		q.Set("after", next)
		nextPage = r.URL.Path + "?" + q.Encode()
	}
	return nextPage, firstPage
}

// A Part is a list of things that are not objects.
type Part[T any] struct {
	Items       []T
	Query       url.Values
	Next, First string
	Filters     []string
	Away        string // why there are none
	Live        bool   // whether something in it is under way
}

// Filtered reports whether only a part is asked for.
func (d Part[T]) Filtered() bool { return filtered(d.Query, d.Filters) }

// PartOf asks for a part of a list, as the query of the address says.
func PartOf[T any](r *http.Request, ask func(adminapi.ListOptions) (adminapi.Page[T], error),
	filters ...string) (Part[T], error) {
	q := r.URL.Query()
	o := adminapi.ListOptions{After: q.Get("after"), Limit: Size, Filters: map[string]string{}}
	for _, name := range filters {
		o.Filters[name] = strings.TrimSpace(q.Get(name))
	}
	page, err := ask(o)
	data := Part[T]{Items: page.Items, Query: q, Filters: filters}
	data.Next, data.First = Pages(r, page.Next)
	data.Away, err = Unavailable(err)
	return data, err
}
