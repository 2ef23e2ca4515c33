package requests

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A bodiesData is what the page of an exchange's kept bodies shows. Until somebody asks for them, that is only a
// button: following a link alone does not count as reading them.
type bodiesData struct {
	ID    string
	Shown bool
	Parts []bodyPart
	adminapi.Bodies
}

type bodyPart struct {
	Name string
	adminapi.Body
}

func askBodies(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return v.Render(w, "bodies", "Kept bodies", bodiesData{ID: r.PathValue("id")})
}

func showBodies(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	found, err := v.API.Bodies(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return v.Render(w, "bodies", "Kept bodies", bodiesData{ID: r.PathValue("id"), Shown: true, Bodies: found,
		Parts: []bodyPart{{"Request", found.Request}, {"Answer", found.Answer}}})
}
