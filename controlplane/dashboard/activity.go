package dashboard

import (
	"html/template"
	"net/http"
	"net/url"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// An activity is what the page of an object begins with: how much it was used in the time that the page shows, and by
// whom, or for what.
type activity struct {
	Span   span
	By     string // the field of the groups
	What   string // the name of a group: Key, Model
	Series adminapi.Series
	Chart  chart
	Away   string
	// Only is the part of an address that shows the object alone.
	Only template.URL
}

// activityOf returns the activity of the object that a field names, in groups by another field. It is nil for people
// who may not see usage.
func (v *visit) activityOf(r *http.Request, field, name, by, what string) (*activity, error) {
	if !v.principal.May(admin.UsageRead) {
		return nil, nil
	}
	a := &activity{Span: v.span(r), By: by, What: what,
		Only: template.URL(url.Values{field: {name}}.Encode())} //nolint:gosec // escaped by Encode
	q := a.Span.series(by)
	q.Groups, q.Detailed, q.Filters = mostNamed, maxStack, map[string][]string{field: {name}}
	var err error
	a.Series, err = v.api.Series(r.Context(), q)
	if a.Away, err = away(err); err != nil {
		return nil, err
	}
	a.Chart = stack("Requests", "requests", a.Series, a.Span)
	return a, nil
}
