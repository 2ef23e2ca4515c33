package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
)

// QuotasCmd is the command quotas.
type QuotasCmd struct {
	adminflags.AdminFlags
	Organization string `placeholder:"NAME" help:"Only this organization and its projects."`
	Project      string `placeholder:"NAME" help:"Only this project of the organization."`
	All          bool   `help:"Include unused quotas."`
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (QuotasCmd) Help() string {
	return `Shows the job service quotas of organizations, projects and keys without an organization, with their use.

Example:
  modelgate quotas --organization acme

To change a quota: modelgate config get organization NAME, then config apply with quotas: {open_batches: 200}.`
}

// Run prints quotas and what is used of them.
func (c QuotasCmd) Run(ctx context.Context, stdout io.Writer) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	page, err := client.Quotas(ctx, adminapi.ListOptions{Filters: map[string]string{"organization": c.Organization,
		"project": c.Project}})
	if err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, page.Items, func(w io.Writer) error {
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
