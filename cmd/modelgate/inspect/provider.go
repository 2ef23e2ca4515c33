package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	test, err := client.TestProvider(ctx, c.Name)
	if err != nil {
		return admincli.Said(err)
	}
	if err := c.Show(stdout, test, func(w io.Writer) error { return showProviderTest(w, test) }); err != nil {
		return err
	}
	if !test.OK {
		return errNotUsable
	}
	return nil
}

func showProviderTest(w io.Writer, test adminapi.ProviderTest) error {
	if _, err := fmt.Fprintln(w, test.Message); err != nil || len(test.Operations) == 0 {
		return err
	}
	var rows [][]string
	for _, o := range test.Operations {
		configured := "no"
		if o.Configured {
			configured = "yes"
		}
		rows = append(rows, []string{o.Name, string(o.State), number(int64(o.Status)), configured})
	}
	return adminflags.Section(w, []string{"OPERATION", "SERVER", "STATUS", "CONFIGURED"}, rows)
}
