package admin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	found, err := client.Bodies(ctx, c.ID)
	if err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, found, func(w io.Writer) error {
		for _, b := range []struct {
			name string
			body adminapi.Body
		}{{"REQUEST", found.Request}, {"ANSWER", found.Answer}} {
			if err := printBody(w, b.name, b.body); err != nil {
				return err
			}
		}
		return nil
	})
}

func printBody(w io.Writer, name string, b adminapi.Body) error {
	note := b.Omitted
	if b.Cut {
		note = "Only the beginning is kept."
	}
	_, err := fmt.Fprintf(w, "%s  %s, %d bytes, %d redacted. %s\n%s\n\n", name, admincli.OneLine(b.ContentType), b.Bytes,
		b.Redacted, note, strings.Map(printable, b.Text))
	return err
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	var deleted adminapi.DeletedBodies
	if c.Exchange != "" {
		deleted, err = client.DeleteBodies(ctx, c.Exchange)
	} else {
		if c.Key != "" {
			if id, err := adminflags.IDOf(ctx, client, configv1.KeyKind(), c.Key); err == nil {
				c.Key = id // else it is of one that was removed
			}
		}
		deleted, err = client.DeleteBodiesOf(ctx, adminapi.ListOptions{Filters: map[string]string{"key": c.Key,
			"organization": c.Organization, "project": c.Project}})
	}
	if err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, deleted, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "Deleted the bodies of %d exchanges\n", deleted.Deleted)
		return err
	})
}
