package inspect

import (
	"context"
	"errors"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// ProviderCmd is the command provider.
type ProviderCmd struct {
	Test providerTestCmd `cmd:"" help:"Ask a provider with its credential which models and operations it has."`
}

type providerTestCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Name string `arg:"" help:"Name of the provider."`
}

// Help is shown below the flags' summary.
func (providerTestCmd) Help() string {
	return `The control plane asks, from its machine. Requests of operations are empty: nothing is
generated or charged.

Examples:
  modelgate provider test mine`
}

// errNotUsable ends the command after it has shown that the provider does not work.
var errNotUsable = errors.New("the provider does not work")

// Run asks. It changes nothing.
func (c providerTestCmd) Run(ctx context.Context, stdout io.Writer) error {
	usable := false
	call := func(client *adminapi.Client) (adminapi.ProviderTest, error) {
		test, err := client.TestProvider(ctx, c.Name)
		usable = test.OK
		return test, err
	}
	err := adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, showProviderTest)
	if err == nil && !usable {
		return errNotUsable
	}
	return err
}

func showProviderTest(out *console.Text, test adminapi.ProviderTest) {
	out.Println(test.Message)
	out.Section([]string{"OPERATION", "SERVER", "STATUS", "CONFIGURED"},
		admincli.Rows(test.Operations, func(o adminapi.OperationTest) []string {
			configured := "no"
			if o.Configured {
				configured = "yes"
			}
			return []string{o.Name, o.State, number(int64(o.Status)), configured}
		}))
}
