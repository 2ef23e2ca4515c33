package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Create a key. It is shown this once and never again."`
	List   keyListCmd   `cmd:"" help:"List the keys."`
	Revoke keyRevokeCmd `cmd:"" help:"Delete a key: it stops working at once and for good. To pause one, apply it with disabled: true."`
}

type keyCreateCmd struct {
	adminFlags
	Name         string   `required:"" help:"What people call the key."`
	Organization string   `placeholder:"ID" help:"Organization that the key belongs to."`
	Project      string   `placeholder:"ID" help:"Project that the key belongs to."`
	Model        []string `placeholder:"NAME" help:"Model that the key may use, or a pattern with *. May be given more than once. Default: all."`
	Expires      string   `placeholder:"WHEN" help:"When the key expires: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h. Default: never."`
	Output       string   `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run creates a key and prints it.
func (c keyCreateCmd) Run(ctx context.Context, stdout io.Writer) error {
	expires, err := parseExpires(c.Expires)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	key, err := client.CreateKey(ctx, adminapi.KeyRequest{
		DisplayName: c.Name, Organization: c.Organization, Project: c.Project, Models: c.Model, ExpiresAt: expires,
	})
	if err != nil {
		return said(err)
	}
	if c.Output == "json" {
		return json.NewEncoder(stdout).Encode(key)
	}
	_, err = fmt.Fprintf(stdout, "Id   %s\nKey  %s\n\nKeep the key now: it is stored only as a hash and cannot be shown again.\n", key.ID, key.Key)
	return err
}

func parseExpires(s string) (*time.Time, error) {
	if s == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		at := time.Now().Add(d).UTC().Truncate(time.Second)
		return &at, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil, errors.New("--expires is neither a time such as 2030-01-31T00:00:00Z nor a duration such as 720h")
	}
	return &at, nil
}

type keyListCmd struct {
	adminFlags
	Output string `short:"o" enum:"text,yaml,json,name" default:"text" help:"text, yaml, json or name."`
}

// Run lists the keys, as a table or as config get does.
func (c keyListCmd) Run(ctx context.Context, stdout io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	items, err := client.List(ctx, configv1.KindOf((*configv1.Key)(nil)))
	if err != nil {
		return said(err)
	}
	if c.Output != "text" {
		return printItems(stdout, c.Output, items)
	}
	rows := []string{"ID\tNAME\tHINT\tORGANIZATION\tPROJECT\tMODELS\tEXPIRES\tSTATE"}
	for _, item := range items {
		if key, ok := item.Object.(*configv1.Key); ok {
			rows = append(rows, strings.Join(keyRow(key, item.Status, time.Now()), "\t"))
		}
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, strings.Join(rows, "\n")); err != nil {
		return err
	}
	return table.Flush()
}

func keyRow(key *configv1.Key, status adminapi.Status, now time.Time) []string {
	expires, state := "never", "active"
	if key.GetExpiresAt() != nil {
		expires = key.GetExpiresAt().AsTime().Format(time.RFC3339)
	}
	switch {
	case status.Error != "":
		state = "error: " + strings.ReplaceAll(status.Error, "\n", "; ")
	case key.GetDisabled():
		state = "disabled"
	case key.GetExpiresAt() != nil && !key.GetExpiresAt().AsTime().After(now):
		state = "expired"
	}
	models := "all"
	if len(key.GetModels()) > 0 {
		models = strings.Join(key.GetModels(), ",")
	}
	row := []string{key.GetName(), key.GetDisplayName(), "..." + key.GetHint(), key.GetOrganization(), key.GetProject(), models, expires, state}
	for i := range row {
		if row[i] == "" {
			row[i] = "-"
		}
	}
	return row
}

type keyRevokeCmd struct {
	adminFlags
	ID string `arg:"" help:"Id of the key."`
}

// Run revokes a key.
func (c keyRevokeCmd) Run(ctx context.Context, stdout io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, configv1.KindOf((*configv1.Key)(nil)), c.ID); err != nil {
		return said(err)
	}
	_, err = fmt.Fprintln(stdout, "Key", c.ID, "revoked")
	return err
}
