// Package dataplane is the page of the processes of the data plane.
//
// A process that has stopped is shown until the control plane forgets it.
package dataplane

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
		Place: 170,
		Lines: []page.Line{
			{Group: page.GroupSettings, Path: "/data-plane", Name: "Data plane", Scope: authz.StatusRead},
		},
		Routes: []page.Route{
			page.Get("/data-plane", authz.StatusRead, show),
		},
		Templates: templates,
	}
}

// A planeData is what the page of the data plane shows.
type planeData struct {
	adminapi.DataPlane
	Away string
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	plane, err := v.API.DataPlane(r.Context())
	data := planeData{DataPlane: plane}
	if data.Away, err = page.Unavailable(err); err != nil {
		return err
	}
	return v.Render(w, "data-plane", "Data plane", data)
}
