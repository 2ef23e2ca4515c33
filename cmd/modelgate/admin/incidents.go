package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// IncidentsCmd is the command incidents.
type IncidentsCmd struct {
	List incidentsListCmd `cmd:"" default:"withargs" help:"Show the incidents that are open, the worst first."`
	Show incidentsShowCmd `cmd:"" help:"Show everything about one incident."`
	Ack  incidentsAckCmd  `cmd:"" help:"Acknowledge an incident."`
	Note incidentsNoteCmd `cmd:"" help:"Add a note to an incident."`
}

type incidentsListCmd struct {
	Closed bool `help:"Also show incidents that have closed."`
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (incidentsListCmd) Help() string {
	return "What opens an incident: see docs/incidents.md.\n\nExample:\n  modelgate incidents --closed"
}

// Run prints incidents.
func (c incidentsListCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Incidents, error) {
		return client.Incidents(ctx, adminapi.Closed.If(c.Closed)...)
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all adminapi.Incidents) {
			out.Table("No incidents.", []string{"SUBJECT", "STATE", "SEVERITY", "SINCE", "REQUESTS", "WHY", "ID"},
				admincli.Rows(all.Items, func(i adminapi.Incident) []string {
					state := i.State
					if i.State == adminapi.IncidentOpen && i.AcknowledgedBy != "" {
						state = "acknowledged"
					}
					return []string{out.Named(i.Subject), state, i.Severity, out.Time(i.Since), strconv.FormatInt(i.Hit.Requests, 10),
						out.Named(i.Why), i.ID}
				}))
		})
}

type incidentsShowCmd struct {
	ID string `arg:"" name:"id" help:"ID of the incident."`
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (incidentsShowCmd) Help() string { return "Example:\n  modelgate incidents show inc_01KB..." }

// Run prints one incident.
func (c incidentsShowCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Incident, error) { return client.Incident(ctx, c.ID) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, incidentText)
}

type incidentsAckCmd struct {
	ID   string `arg:"" name:"id" help:"ID of the incident."`
	Note string `placeholder:"TEXT" help:"Add a note, too."`
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (incidentsAckCmd) Help() string {
	return "The incident stays open until it is over.\n\nExample:\n  modelgate incidents ack inc_01KB... --note \"The new key comes at noon.\""
}

// Run acknowledges an incident.
func (c incidentsAckCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Incident, error) {
		return client.NoteIncident(ctx, c.ID, adminapi.IncidentNoteRequest{Acknowledge: true, Text: c.Note})
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, incidentText)
}

type incidentsNoteCmd struct {
	ID   string `arg:"" name:"id" help:"ID of the incident."`
	Text string `arg:"" help:"Text of the note."`
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (incidentsNoteCmd) Help() string {
	return "Example:\n  modelgate incidents note inc_01KB... \"The vendor has confirmed it.\""
}

// Run adds a note.
func (c incidentsNoteCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Incident, error) {
		return client.NoteIncident(ctx, c.ID, adminapi.IncidentNoteRequest{Text: c.Text})
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, incidentText)
}

// incidentText writes everything about an incident.
func incidentText(out *console.Text, i adminapi.Incident) {
	line := func(name, value string) {
		if value != "" {
			out.Printf("%-14s %s\n", name, adminapi.OneLine(value))
		}
	}
	line("Incident", i.ID+", "+i.State+", "+i.Severity)
	line("Subject", out.Named(i.Subject))
	line("Why", out.Named(i.Why))
	line("Since", i.Since.UTC().Format(time.RFC3339))
	if i.Until != nil {
		line("Until", i.Until.UTC().Format(time.RFC3339))
	}
	line("Gateway", i.Gateway)
	line("Hit", strconv.FormatInt(i.Hit.Requests, 10)+" requests, $"+i.Hit.CostUSD)
	line("Organizations", admincli.Some(i.Hit.Organizations))
	line("Keys", out.Named(admincli.Some(i.Hit.Keys)))
	line("Models", admincli.Some(i.Hit.Models))
	line("Batches", admincli.Some(i.Hit.Batches))
	if c := i.Change; c != nil {
		line("Last change", fmt.Sprintf("%s %s %s %s at %s", out.Named(c.Actor), c.Action, c.Kind, out.Named(c.Name),
			c.At.UTC().Format(time.RFC3339)))
		line("Undo", c.Command)
		if c.Stays {
			line("Undo", "a rollback does not undo it: it brings back no credential. Change the object")
		}
	}
	if i.AcknowledgedAt != nil {
		line("Acknowledged", "by "+i.AcknowledgedBy+" at "+i.AcknowledgedAt.UTC().Format(time.RFC3339))
	}
	out.WriteByte('\n')
	for _, t := range i.Transitions {
		out.Printf("%s  %s  %s  %s\n", t.At.UTC().Format(time.RFC3339), t.State, t.Kind, adminapi.OneLine(out.Named(t.Why)))
	}
	for _, n := range i.Notes {
		if n.Text != "" {
			out.Printf("%s  %s: %s\n", n.At.UTC().Format(time.RFC3339), n.Author, adminapi.OneLine(n.Text))
		}
	}
}
