package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

type orgCmd struct {
	Create orgCreateCmd `cmd:"" help:"Create an organization, which shares limits and budgets among its keys."`
	List   orgListCmd   `cmd:"" help:"List the organizations."`
}

type projectCmd struct {
	Create projectCreateCmd `cmd:"" help:"Create a project, which shares limits and budgets among its keys."`
	List   projectListCmd   `cmd:"" help:"List the projects."`
}

type orgCreateCmd struct {
	adminFlags
	waitFlags
	itemFlags
	limitFlags
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
	limits, err := c.stored()
	if err != nil {
		return err
	}
	o := &configv1.Organization{Name: c.Name, DisplayName: c.Label, Limits: limits, Budgets: c.storedBudgets()}
	return createObject(ctx, stdout, c.adminFlags, c.waitFlags, c.itemFlags, o)
}

type projectCreateCmd struct {
	adminFlags
	waitFlags
	itemFlags
	limitFlags
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
	limits, err := c.stored()
	if err != nil {
		return err
	}
	p := &configv1.Project{Name: c.Name, DisplayName: c.Label, Limits: limits, Budgets: c.storedBudgets()}
	return createObject(ctx, stdout, c.adminFlags, c.waitFlags, c.itemFlags, p)
}

type orgListCmd struct {
	adminFlags
	itemFlags
	Query string `short:"q" placeholder:"TEXT" help:"Only organizations whose name contains this text."`
}

// Run lists the organizations.
func (c orgListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind := configv1.KindOf((*configv1.Organization)(nil))
	return listObjects(ctx, stdout, c.adminFlags, c.itemFlags, kind, adminapi.ListOptions{Query: c.Query})
}

type projectListCmd struct {
	adminFlags
	itemFlags
	Query string `short:"q" placeholder:"TEXT" help:"Only projects whose name contains this text."`
}

// Run lists the projects.
func (c projectListCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind := configv1.KindOf((*configv1.Project)(nil))
	return listObjects(ctx, stdout, c.adminFlags, c.itemFlags, kind, adminapi.ListOptions{Query: c.Query})
}

// createObject stores an object that must not be there yet, and prints it.
func createObject(ctx context.Context, stdout io.Writer, f adminFlags, w waitFlags, o itemFlags,
	object configv1.Object) error {
	client, pending, err := w.client(f)
	if err != nil {
		return err
	}
	kind := configv1.KindOf(object)
	_, err = client.Get(ctx, kind, object.GetName())
	if err == nil {
		return fmt.Errorf("%s already exists; change it with modelgate config apply", configv1.Label(object))
	}
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.Status != http.StatusNotFound {
		return admincli.Said(err)
	}
	item, err := client.Put(ctx, object, 0)
	if err != nil {
		return admincli.Said(err)
	}
	return errors.Join(o.showOne(stdout, kind, item), pending.err())
}

// stored returns the limits as objects have them.
func (f limitFlags) stored() ([]*configv1.Limit, error) {
	limits, err := f.limits()
	if err != nil {
		return nil, err
	}
	var all []*configv1.Limit
	for _, l := range limits {
		unit, ok := configv1.Unit_value[l.Unit]
		if !ok && l.Unit != "" {
			return nil, admincli.Misused("--limit: there is no unit %q; the units are minute, hour and day",
				strings.ToLower(l.Unit))
		}
		all = append(all, &configv1.Limit{Domain: l.Domain, Unit: configv1.Unit(unit), RequestsPerUnit: l.RequestsPerUnit,
			Model: l.Model})
	}
	return all, nil
}

func (f limitFlags) storedBudgets() []*configv1.Budget {
	var all []*configv1.Budget
	for _, b := range f.budgets() {
		all = append(all, &configv1.Budget{Unit: configv1.Unit(configv1.Unit_value[b.Unit]), Usd: b.USD})
	}
	return all
}
