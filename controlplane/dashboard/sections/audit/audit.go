// Package audit is the page of the audit log.
//
// People who are restricted to a tenant see its entries only, as the API returns them.
package audit

import (
	"embed"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place: 180,
		Lines: []page.Line{
			{Group: page.GroupSettings, Path: "/audit", Name: "Audit log", Scope: authz.AuditRead, Tenants: true},
		},
		Routes: []page.Route{
			page.Get("/audit", authz.AuditRead, list),
		},
		Templates: templates,
	}
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := page.PartOf(r, func(o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error) {
		return v.API.Audit(r.Context(), o)
	}, "actor", "action", "kind", "name")
	if err != nil {
		return err
	}
	return v.Render(w, "audit", "Audit log", data)
}
