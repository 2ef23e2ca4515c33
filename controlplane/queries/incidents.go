package queries

import (
	"context"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// maxNote bounds a note, in bytes.
const maxNote = 2000

func (q *Service) kept() *incidents.Store { return incidents.NewStore(q.options.Ledger.Database()) }

// Incidents returns the incidents that the caller may know, those that are open, and if asked also others.
func (q *Service) Incidents(ctx context.Context, closed bool) (adminapi.Incidents, error) {
	out := adminapi.Incidents{Items: []adminapi.Incident{}}
	all, err := q.kept().List(ctx, closed)
	if err != nil {
		return out, ledger.Unavailable(err)
	}
	for i := range all {
		if shown(ctx, &all[i]) {
			out.Items = append(out.Items, all[i])
		}
	}
	return out, nil
}

// Incident returns one that the caller may know.
func (q *Service) Incident(ctx context.Context, name string) (adminapi.Incident, error) {
	i, found, err := q.kept().Get(ctx, name)
	if err != nil {
		return i, ledger.Unavailable(err)
	}
	if !found || !shown(ctx, &i) {
		return adminapi.Incident{}, openai.CodeNotFound.New("There is no incident %q.", name)
	}
	return i, nil
}

// NoteIncident adds what the caller says of an incident.
func (q *Service) NoteIncident(ctx context.Context, name string,
	said adminapi.IncidentNoteRequest) (adminapi.Incident, error) {
	i, err := q.Incident(ctx, name)
	if err != nil {
		return i, err
	}
	switch {
	case said.Text == "" && !said.Acknowledge:
		return i, openai.CodeMissingRequiredParameter.On("text", "Give a text, or acknowledge the incident.")
	case len(said.Text) > maxNote:
		return i, openai.CodeInvalidValue.On("text", "A note has at most %d bytes.", maxNote)
	}
	caller, _ := authz.PrincipalOf(ctx)
	err = q.kept().Note(ctx, i.ID, adminapi.IncidentNote{At: time.Now().UTC(), Author: caller.Name, Text: said.Text,
		Acknowledged: said.Acknowledge})
	if err != nil {
		return i, ledger.Unavailable(err)
	}
	return q.Incident(ctx, name)
}

// shown reports whether the caller may know of an incident, and removes what of it the caller may not read.
func shown(ctx context.Context, i *adminapi.Incident) bool {
	if !mayKnow(ctx, adminapi.Attention{Kind: i.Kind, Object: i.Object}) {
		return false
	}
	if authz.Needs(ctx, authz.KeysRead) != nil {
		i.Hit.Keys = []string{}
	}
	if authz.Needs(ctx, authz.ConfigRead) != nil {
		i.Hit.Organizations, i.Hit.Models, i.Gateway = []string{}, []string{}, ""
	}
	if authz.Needs(ctx, authz.JobsRead) != nil {
		i.Hit.Batches = []string{}
	}
	if authz.Needs(ctx, authz.AuditRead) != nil {
		i.Change = nil
	}
	return true
}
