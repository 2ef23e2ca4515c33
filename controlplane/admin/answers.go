package admin

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// writeChanges answers with what was done, or would be.
func writeChanges(w http.ResponseWriter, p *config.Plan) error {
	answer := adminapi.ApplyAnswer{Revision: p.Revision, Changes: p.Changes}
	if answer.Changes == nil {
		answer.Changes = []adminapi.Change{}
	}
	status := http.StatusOK
	if p.Pending() {
		status = http.StatusAccepted
	}
	return httpapi.WriteJSON(w, status, answer)
}

// boolOf reads a query parameter that is true or false, or absent: false.
func boolOf(r *http.Request, name string) (bool, error) {
	switch values := r.URL.Query()[name]; {
	case len(values) > 1:
		return false, givenTwice(name)
	case len(values) == 0, values[0] == "false":
		return false, nil
	case values[0] == "true":
		return true, nil
	}
	return false, openai.CodeInvalidValue.On(name, "The parameter %s must be true or false.", name)
}
