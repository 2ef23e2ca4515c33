// Package acme is the page of the recipe's test.
package acme

import (
	"embed"
	"net/http"

	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place:     45,
		Lines:     []page.Line{{Group: page.GroupRequests, Path: "/acme", Name: "Deliveries", Scope: authz.UsageRead}},
		Routes:    []page.Route{page.Get("/acme", authz.UsageRead, show)},
		Templates: templates,
	}
}

func show(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
	return v.Render(w, "acme", "Deliveries", "an anvil")
}
