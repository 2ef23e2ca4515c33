package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

type quotasCmd struct {
	adminFlags
	Organization string `placeholder:"NAME" help:"Only this organization and its projects."`
	Project      string `placeholder:"NAME" help:"Only this project of the organization."`
	All          bool   `help:"Include unused quotas."`
	outputFlags
}

// Help is shown below the flags' summary.
func (quotasCmd) Help() string {
	return `Shows the job service quotas of organizations, projects and keys without an organization, with their use.

Example:
  modelgate quotas --organization acme

To change a quota: modelgate config get organization NAME, then config apply with quotas: {open_batches: 200}.`
}

// Run prints quotas and what is used of them.
func (c quotasCmd) Run(ctx context.Context, stdout io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.Quotas(ctx, adminapi.ListOptions{Filters: map[string]string{"organization": c.Organization,
		"project": c.Project}})
	if err != nil {
		return admincli.Said(err)
	}
	return c.show(stdout, page.Items, func(w io.Writer) error {
		rows := [][]string{}
		for _, item := range page.Items {
			for _, q := range item.Quotas {
				if q.Used > 0 || c.All {
					rows = append(rows, []string{item.Owner(), q.Name, strconv.FormatInt(q.Used, 10), strconv.FormatInt(q.Limit, 10),
						fmt.Sprintf("%d%%", q.Percent())})
				}
			}
		}
		return admincli.PrintTable(w, []string{"OWNER", "QUOTA", "USED", "OF", "PERCENT"}, rows)
	})
}
