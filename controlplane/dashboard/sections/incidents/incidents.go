// Package incidents is the page of incidents, and the page of one.
//
// A note is kept with the account that has written it, so it has a form of its own and no field for a name.
package incidents

import (
	"cmp"
	"embed"
	"net/http"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 20,
		Lines: []page.Line{
			{Group: page.GroupOverview, Path: "/incidents", Name: "Incidents", Scope: authz.StatusRead},
		},
		Routes: []page.Route{
			page.Get("/incidents", authz.StatusRead, list),
			page.Get("/incidents/{id}", authz.StatusRead, show),
			page.Post("/incidents/{id}", authz.ConfigWrite, note),
		},
		Templates: templates,
		Notices: map[string]string{
			"incident_noted":        "The note is kept.",
			"incident_acknowledged": "Acknowledged. The incident closes when it is over.",
		},
	}
}

// A listData is what the page of incidents shows.
type listData struct {
	Open, Closed []adminapi.Incident
	Away         string
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	var data listData
	all, err := v.API.Incidents(r.Context(), adminapi.Closed)
	if data.Away, err = page.Unavailable(err); err != nil {
		return err
	}
	for _, i := range all.Items {
		if i.State == adminapi.IncidentOpen {
			data.Open = append(data.Open, i)
		} else {
			data.Closed = append(data.Closed, i)
		}
	}
	return v.Render(w, "incidents", "Incidents", data)
}

// A showData is what the page of one incident shows.
type showData struct {
	adminapi.Incident
	Away string
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return showWith(v, w, r, http.StatusOK, "")
}

func showWith(v *page.Visit, w http.ResponseWriter, r *http.Request, status int, problem string) error {
	var data showData
	var err error
	data.Incident, err = v.API.Incident(r.Context(), r.PathValue("id"))
	if data.Away, err = page.Unavailable(err); err != nil {
		return err
	}
	return v.RenderStatus(w, status, "incident", cmp.Or(data.Subject, "Incident"), data, problem)
}

// note keeps what a person says of an incident.
func note(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	said := adminapi.IncidentNoteRequest{Text: strings.TrimSpace(r.PostForm.Get("text")),
		Acknowledge: r.PostForm.Get("action") == "acknowledge"}
	_, err := v.API.NoteIncident(r.Context(), r.PathValue("id"), said)
	message, ok := page.Refused(err)
	if away, _ := page.Unavailable(err); away != "" {
		message, ok = "The note was not kept: "+away, true
	}
	if ok {
		return showWith(v, w, r, http.StatusUnprocessableEntity, message)
	}
	done := "incident_noted"
	if said.Acknowledge {
		done = "incident_acknowledged"
	}
	return v.Done(w, r, err, page.Path("incidents", r.PathValue("id")), done)
}
