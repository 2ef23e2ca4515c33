package admin

import (
	"context"
	"fmt"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
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
	call := func(client *adminapi.Client) ([]adminapi.TenantQuotas, error) {
		filters := map[string]string{"organization": c.Organization, "project": c.Project}
		page, err := client.Quotas(ctx, adminapi.ListOptions{Filters: filters})
		if err == nil && len(page.Items) == 0 {
			err = adminflags.Known(ctx, client, filters)
		}
		return page.Items, err
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all []adminapi.TenantQuotas) {
			var rows [][]string
			for _, item := range all {
				for _, q := range item.Quotas {
					if q.Used > 0 || c.All {
						rows = append(rows, []string{out.Named(item.Owner()), q.Name, fmt.Sprint(q.Used), fmt.Sprint(q.Limit),
							fmt.Sprintf("%d%%", q.Percent())})
					}
				}
			}
			out.Table("No quota is used; --all shows those without use.", []string{"OWNER", "QUOTA", "USED", "OF", "PERCENT"}, rows)
		})
}
