package admin

import (
	"context"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// EraseCmd is the command erase.
type EraseCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	User   string `required:"" placeholder:"USER" help:"User, as clients named it in requests."`
	DryRun bool   `help:"Count what there is, and erase nothing."`
}

// Help is shown below the flags' summary.
func (EraseCmd) Help() string {
	return "Exchanges stay in the request log without the user. Example:\n  modelgate erase --user ann@example.com --dry-run"
}

// Run erases what is recorded of a user.
func (c EraseCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (all adminapi.Erasure, err error) {
		for all.More = true; all.More; {
			erased, err := client.EraseUser(ctx, adminapi.ErasureRequest{User: c.User}, adminapi.DryRun.If(c.DryRun)...)
			if err != nil {
				return all, err
			}
			all.ID, all.More = erased.ID, erased.More
			all.Exchanges += erased.Exchanges
			all.Sums += erased.Sums
			all.Bodies += erased.Bodies
		}
		return all, nil
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, func(out *console.Text, all adminapi.Erasure) {
		what := "Erased " + all.ID + ":"
		if c.DryRun {
			what = "There are"
		}
		out.Printf("%s %d exchanges, %d sums of usage, the bodies of %d exchanges\n", what, all.Exchanges,
			all.Sums, all.Bodies)
	})
}
