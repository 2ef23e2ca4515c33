package admin

import (
	"context"
	"errors"
	"io"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// KeyCmd is the command key.
type KeyCmd struct {
	Create  keyCreateCmd  `cmd:"" help:"Create a key. It is shown only once."`
	List    keyListCmd    `cmd:"" help:"List the keys."`
	Get     keyGetCmd     `cmd:"" help:"Print the settings of a key, but not the key itself."`
	Rotate  keyRotateCmd  `cmd:"" help:"Replace a key with a new one that has the same id, settings and usage. The old one can stay valid for a limited time."`
	Renew   keyRenewCmd   `cmd:"" help:"Rotate a key in a file when it is due, for a workload that reads the file."`
	Disable keyDisableCmd `cmd:"" help:"Disable a key. The gateway refuses it until you enable it."`
	Enable  keyEnableCmd  `cmd:"" help:"Enable a disabled key."`
	Revoke  keyRevokeCmd  `cmd:"" help:"Delete a key. It stops working immediately, and this cannot be undone. To pause a key, disable it."`
	Usage   keyUsageCmd   `cmd:"" help:"Print the usage of a key's limits and budgets."`
}

type keyCreateCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	adminflags.OutputFlags
	adminflags.LimitFlags
	Name          string            `required:"" help:"Display name of the key."`
	Organization  string            `placeholder:"NAME" help:"Organization that the key belongs to."`
	Project       string            `placeholder:"NAME" help:"Project that the key belongs to."`
	CreateMissing bool              `help:"Create the organization and the project, without limits, if they do not exist. Without this flag, the key is refused."`
	Models        []string          `aliases:"model" placeholder:"NAME" predictor:"models" help:"Models that the key may use, as names or patterns with *, separated by commas. Default: all."`
	Endpoints     []string          `placeholder:"PATH" help:"Operations that the key may use, as paths under /v1/ or patterns, such as chat/completions. Default: all."`
	Addresses     []string          `placeholder:"CIDR" help:"Source addresses or CIDR ranges that the key allows. Default: all."`
	Metadata      map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"A note on the key. May be given more than once."`
	Expires       string            `placeholder:"WHEN" help:"When the key expires: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h. Default: never."`
}

// Help is shown below the flags' summary.
func (keyCreateCmd) Help() string {
	return `Example:
  modelgate key create --name ci --organization acme --project web --models 'openai/*,echo/echo' --rpm 60 --budget-usd-month 10 -o json`
}

// Run creates a key and prints it.
func (c keyCreateCmd) Run(ctx context.Context, stdout io.Writer) error {
	expires, err := parseExpires(c.Expires)
	if err != nil {
		return err
	}
	limits, err := c.Limits()
	if err != nil {
		return err
	}
	client, pending, err := c.WaitFlags.Client(c.AdminFlags)
	if err != nil {
		return err
	}
	key, err := client.CreateKey(ctx, adminapi.KeyRequest{
		DisplayName: c.Name, Organization: c.Organization, Project: c.Project, ExpiresAt: expires,
		Models: c.Models, Endpoints: c.Endpoints, Addresses: c.Addresses, Metadata: c.Metadata,
		Limits: limits, Budgets: c.Budgets(),
	}, adminapi.CreateMissing.If(c.CreateMissing)...)
	if err != nil && key.Key == "" {
		return admincli.Said(err)
	}
	return errors.Join(printNewKey(stdout, c.OutputFlags, key), err, pending.Err())
}

func printNewKey(stdout io.Writer, o adminflags.OutputFlags, key adminapi.NewKey) error {
	return o.Show(stdout, key, func(out *console.Text) {
		out.Printf("Id   %s\nKey  %s\n\nKeep the key now: it is stored only as a hash and cannot be shown again.\n",
			key.ID, key.Key)
		if key.Pending {
			out.Printf("It does not work before somebody else approves it: modelgate approval approve %s\n",
				key.Approval.ID)
		}
	})
}

type keyListCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
	Organization string `placeholder:"NAME" help:"Only keys of this organization."`
	Project      string `placeholder:"NAME" help:"Only keys of this project."`
	Query        string `short:"q" placeholder:"TEXT" help:"Only keys whose id, name or hint contains this text."`
}

// Help is shown below the flags' summary.
func (keyListCmd) Help() string {
	return `The table has the requests, refusals and cost of the last 24 hours, and below it the keys that were refused most,
also those that nobody knows. JSON and YAML have the settings alone: GET /admin/v1/key-traffic has the figures.`
}

// Run lists the keys.
func (c keyListCmd) Run(ctx context.Context, stdout io.Writer) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	filters := map[string]string{"organization": c.Organization, "project": c.Project}
	items, err := admincli.ListAll(ctx, client, configv1.KeyKind(),
		adminapi.ListOptions{Query: c.Query, Filters: filters})
	if err == nil && len(items) == 0 {
		err = adminflags.Known(ctx, client, filters)
	}
	if err != nil {
		return admincli.Said(err)
	}
	if c.Output != "table" && c.Output != "text" {
		return c.Show(stdout, configv1.KeyKind(), items)
	}
	used, err := trafficOf(ctx, client, items)
	if err != nil {
		return c.ShowMore(stdout, configv1.KeyKind(), items, nil, func(out *console.Text) {
			out.Println("\nWhat the keys did is not known:", admincli.Said(err))
		})
	}
	return c.ShowMore(stdout, configv1.KeyKind(), items, used.columns(), used.rejected)
}

type keyGetCmd struct {
	adminflags.AdminFlags
	Output string `short:"o" enum:"table,text,json,yaml,name" default:"yaml" help:"yaml, json, table or name."`
	ID     string `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Run prints a key's document.
func (c keyGetCmd) Run(ctx context.Context, stdout io.Writer) error {
	return configGetCmd{AdminFlags: c.AdminFlags, Output: c.Output, Kind: configv1.KeyKind().Name, Name: c.ID}.Run(ctx,
		stdout)
}

type keyRotateCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	adminflags.OutputFlags
	Grace time.Duration `default:"0" help:"How long the old key stays valid, such as 24h; at most 720h. Default: it stops working immediately."`
	ID    string        `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Run replaces a key and prints the new one.
func (c keyRotateCmd) Run(ctx context.Context, stdout io.Writer) error {
	if c.Grace < 0 || c.Grace%time.Second != 0 {
		return admincli.Misused("--grace must be whole seconds, such as 24h or 90s")
	}
	client, pending, err := c.WaitFlags.Client(c.AdminFlags)
	if err != nil {
		return err
	}
	if c.ID, err = adminflags.IDOf(ctx, client, configv1.KeyKind(), c.ID); err != nil {
		return err
	}
	key, err := client.RotateKey(ctx, c.ID, adminapi.RotateRequest{Grace: int64(c.Grace / time.Second)})
	if err != nil {
		return admincli.Said(err)
	}
	return errors.Join(printNewKey(stdout, c.OutputFlags, key), pending.Err())
}

type keyDisableCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	ID string `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Run disables a key.
func (c keyDisableCmd) Run(ctx context.Context, stdout io.Writer) error {
	return setDisabled(ctx, stdout, c.AdminFlags, &c.WaitFlags, c.ID, true)
}

type keyEnableCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	ID string `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Run enables a key.
func (c keyEnableCmd) Run(ctx context.Context, stdout io.Writer) error {
	return setDisabled(ctx, stdout, c.AdminFlags, &c.WaitFlags, c.ID, false)
}

func setDisabled(ctx context.Context, stdout io.Writer, f adminflags.AdminFlags, w *adminflags.WaitFlags, given string,
	disabled bool) error {
	return change(stdout, f, w, func(client *adminapi.Client) (string, error) {
		id, err := adminflags.IDOf(ctx, client, configv1.KeyKind(), given)
		if err == nil {
			err = adminflags.Change(ctx, client, id, func(k *configv1.Key) { k.Disabled = disabled })
		}
		return "Key " + given + map[bool]string{true: " disabled", false: " enabled"}[disabled], err
	})
}

type keyRevokeCmd struct {
	adminflags.AdminFlags
	adminflags.WaitFlags
	ID string `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Run revokes a key.
func (c keyRevokeCmd) Run(ctx context.Context, stdout io.Writer) error {
	return deleteObject(ctx, stdout, c.AdminFlags, &c.WaitFlags, configv1.KeyKind(), c.ID, "Key", "revoked")
}

type keyUsageCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	ID string `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Run prints what of the limits and budgets that hold for a key is used.
func (c keyUsageCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Consumption, error) {
		id, err := adminflags.IDOf(ctx, client, configv1.KeyKind(), c.ID)
		if err != nil {
			return adminapi.Consumption{}, err
		}
		return client.KeyConsumption(ctx, id)
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, used adminapi.Consumption) {
			out.Printf("Last used: %s\n\n", out.TimeOr(used.LastUsed, "never"))
			if len(used.Limits)+len(used.Budgets) == 0 {
				out.WriteString("The key has no limits and no budgets.\n")
				return
			}
			out.Table("It has no limits and no budgets.", []string{"SCOPE", "WHAT", "MODEL", "USED", "LIMIT", "RESETS"},
				adminflags.ConsumptionRows(used, out))
		})
}
