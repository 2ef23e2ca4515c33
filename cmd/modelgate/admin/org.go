package admin

import (
	"context"
	"io"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
)

// OrgCmd is the command org.
type OrgCmd struct {
	Create orgCreateCmd `cmd:"" help:"Create an organization, which shares limits and budgets among its keys."`
	List   orgListCmd   `cmd:"" help:"List the organizations."`
}

// ProjectCmd is the command project.
type ProjectCmd struct {
	Create projectCreateCmd `cmd:"" help:"Create a project, which shares limits and budgets among its keys."`
	List   projectListCmd   `cmd:"" help:"List the projects."`
}

type orgCreateCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	adminflags.ItemFlags
	adminflags.LimitFlags
	Label string `placeholder:"TEXT" help:"Display name."`
	Name  string `arg:"" help:"Name of the organization."`
}

// Help is shown below the flags' summary.
func (orgCreateCmd) Help() string {
	return `Example:
  modelgate org create acme --rpm 1000 --budget-usd-month 500

To change or delete it: modelgate config get organization NAME, config apply and config delete.`
}

// Run creates an organization.
func (c orgCreateCmd) Run(ctx context.Context, stdout io.Writer) error {
	limits, err := c.Stored()
	if err != nil {
		return err
	}
	o := &configv1.Organization{Name: c.Name, DisplayName: c.Label, Limits: limits, Budgets: c.StoredBudgets()}
	return createObject(ctx, stdout, c.AdminFlags, &c.WaitFlags, c.ItemFlags, o)
}

type projectCreateCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	adminflags.ItemFlags
	adminflags.LimitFlags
	Label string `placeholder:"TEXT" help:"Display name."`
	Name  string `arg:"" placeholder:"ORGANIZATION/PROJECT" help:"Name of the project, as organization/project."`
}

// Help is shown below the flags' summary.
func (projectCreateCmd) Help() string {
	return "Example:\n  modelgate project create acme/web --tpm 100000 --budget-usd-day 20"
}

// Run creates a project.
func (c projectCreateCmd) Run(ctx context.Context, stdout io.Writer) error {
	if !strings.Contains(c.Name, "/") {
		return admincli.Misused("a project is named ORGANIZATION/PROJECT, such as acme/%s", c.Name)
	}
	limits, err := c.Stored()
	if err != nil {
		return err
	}
	p := &configv1.Project{Name: c.Name, DisplayName: c.Label, Limits: limits, Budgets: c.StoredBudgets()}
	return createObject(ctx, stdout, c.AdminFlags, &c.WaitFlags, c.ItemFlags, p)
}

type orgListCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
	Query string `short:"q" placeholder:"TEXT" help:"Only organizations whose name contains this text."`
}

// Run lists the organizations.
func (c orgListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind := configv1.KindOf((*configv1.Organization)(nil))
	return listObjects(ctx, stdout, c.AdminFlags, c.ItemFlags, kind, adminapi.ListOptions{Query: c.Query})
}

type projectListCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
	Query string `short:"q" placeholder:"TEXT" help:"Only projects whose name contains this text."`
}

// Run lists the projects.
func (c projectListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind := configv1.KindOf((*configv1.Project)(nil))
	return listObjects(ctx, stdout, c.AdminFlags, c.ItemFlags, kind, adminapi.ListOptions{Query: c.Query})
}
