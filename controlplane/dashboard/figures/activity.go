package figures

import (
	"html/template"
	"net/http"
	"net/url"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// An Activity is the top of an object's page: how much it was used in the time that the page shows, and by whom, or
// for what.
type Activity struct {
	Span   Span
	By     string // the field of the groups
	What   string // the name of a group: Key, Model
	Series adminapi.Series
	Table  Table
	Chart  Chart
	Away   string
	// Only is the part of an address that shows the object alone.
	Only template.URL
}

// ActivityOf returns the activity of the object that a field names, in groups by another field. It is nil for people
// who may not see usage.
func ActivityOf(v *page.Visit, r *http.Request, field, name, by, what string) (*Activity, error) {
	if !v.Principal.May(authz.UsageRead) {
		return nil, nil
	}
	a := &Activity{Span: SpanOf(v, r), By: by, What: what,
		Only: template.URL(url.Values{field: {name}}.Encode())} //nolint:gosec // escaped by Encode
	q := a.Span.Series(by)
	q.Groups, q.Detailed, q.Filters = MaxStack, MaxStack, map[string][]string{field: {name}}
	var err error
	if a.Series, err = v.API.Series(r.Context(), q.Values()); err == nil {
		a.Table, err = TableOf(v, r, a.Span, by, q.Filters)
	}
	if a.Away, err = page.Unavailable(err); err != nil {
		return nil, err
	}
	a.Chart = Stack("Requests", "requests", a.Series, a.Span)
	return a, nil
}
