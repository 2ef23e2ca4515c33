package admin

import (
	"context"
	"io"
	"strings"
	"unicode"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// BodiesCmd is the command bodies.
type BodiesCmd struct {
	Show   bodiesShowCmd   `cmd:"" help:"Show the kept request and answer of an exchange. The audit log records it."`
	Delete bodiesDeleteCmd `cmd:"" help:"Delete kept requests and answers. This cannot be undone."`
}

type bodiesShowCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	ID string `arg:"" help:"Id of the exchange in the request log."`
}

// Help is shown below the flags' summary.
func (bodiesShowCmd) Help() string {
	return `Needs a token with the scope bodies:read. The token of the data folder does not have it.

Example:
  modelgate token create --name support --scopes bodies:read --expires 1h`
}

// Run prints the bodies of an exchange.
func (c bodiesShowCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Bodies, error) { return client.Bodies(ctx, c.ID) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, func(out *console.Text, found adminapi.Bodies) {
		printBody(out, "REQUEST", found.Request)
		printBody(out, "ANSWER", found.Answer)
	})
}

func printBody(out *console.Text, name string, b adminapi.Body) {
	note := b.Omitted
	if b.Cut {
		note = "Only the beginning is kept."
	}
	out.Printf("%s  %s, %d bytes, %d redacted. %s\n%s\n\n", name, adminapi.OneLine(b.ContentType), b.Bytes,
		b.Redacted, note, strings.Map(printable, b.Text))
}

// printable keeps what a client sent from controlling the terminal.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return unicode.ReplacementChar
	}
	return r
}

type bodiesDeleteCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Exchange     string `placeholder:"ID" xor:"whose" help:"Of this exchange."`
	Key          string `placeholder:"KEY" xor:"whose" help:"Of this key: its id or name. Of a key that was deleted: its id."`
	Organization string `placeholder:"NAME" xor:"whose" help:"Of this organization."`
	Project      string `placeholder:"NAME" help:"Only of this project of the organization."`
}

// Help is shown below the flags' summary.
func (bodiesDeleteCmd) Help() string {
	return "Example:\n  modelgate bodies delete --organization acme"
}

// Run deletes bodies.
func (c bodiesDeleteCmd) Run(ctx context.Context, stdout io.Writer) error {
	if c.Exchange == "" && c.Key == "" && c.Organization == "" {
		return admincli.Misused("say whose bodies: --exchange, --key or --organization")
	}
	if c.Project != "" && c.Organization == "" {
		return admincli.Misused("--project needs --organization")
	}
	call := func(client *adminapi.Client) (adminapi.DeletedBodies, error) {
		if c.Exchange != "" {
			return client.DeleteBodiesOfRequest(ctx, c.Exchange)
		}
		if id, err := adminflags.IDOf(ctx, client, configv1.KeyKind(), c.Key); err == nil {
			c.Key = id // else it is of one that was removed
		}
		return client.DeleteBodies(ctx, adminapi.ListOptions{Filters: map[string]string{"key": c.Key,
			"organization": c.Organization, "project": c.Project}})
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, deleted adminapi.DeletedBodies) {
			out.Printf("Deleted the bodies of %d exchanges\n", deleted.Deleted)
		})
}
