package api

import (
	"context"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// incidentHandlers show incidents, and take what people say of them.
type incidentHandlers struct{ *server }

func (h incidentHandlers) routes() []route {
	return []route{
		{operation: onIncidents(h.queries.Incidents), scope: authz.StatusRead, needs: h.hasLedger},
		{operation: onIncident(h.queries.Incident), scope: authz.StatusRead, needs: h.hasLedger},
		{operation: onNoteIncident(h.noteIncident), scope: authz.ConfigWrite, needs: h.hasLedger},
	}
}

// noteIncident keeps a note, and an entry of the audit log that there is one.
func (h incidentHandlers) noteIncident(ctx context.Context, name string,
	said adminapi.IncidentNoteRequest) (adminapi.Incident, error) {
	i, err := h.queries.NoteIncident(ctx, name, said)
	if err != nil {
		return i, err
	}
	action := "note"
	if said.Acknowledge {
		action = "acknowledge"
	}
	return i, h.note(ctx, action, "Incident", i.ID, said.Text)
}
