package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// ProviderCmd is the command provider.
type ProviderCmd struct {
	Health providerHealthCmd `cmd:"" help:"Show how the attempts at each provider went, and which fails."`
	Test   providerTestCmd   `cmd:"" help:"Ask a provider with its credential which models and operations it has."`
}

type providerHealthCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Name string `arg:"" optional:"" help:"Name of a provider. Default: all."`
}

// Help is shown below the flags' summary.
func (providerHealthCmd) Help() string {
	return `The state is that of the last 15 minutes, or of the last 24 hours if they have fewer than 3 attempts. The
command exits with 1 if a provider fails.

Example:
  modelgate provider health`
}

// Run shows the health of providers, those that fail first.
func (c providerHealthCmd) Run(ctx context.Context, stdout io.Writer) error {
	failing := false
	call := func(client *adminapi.Client) (adminapi.Health, error) {
		health, err := client.Health(ctx)
		health.Providers = slices.DeleteFunc(health.Providers, func(p adminapi.ProviderHealth) bool {
			return c.Name != "" && p.Provider != c.Name
		})
		if err == nil && c.Name != "" && len(health.Providers) == 0 {
			err = fmt.Errorf("there is no provider %q", c.Name)
		}
		failed := func(p adminapi.ProviderHealth) bool { return p.State == adminapi.ProviderFailing }
		failing = slices.ContainsFunc(health.Providers, failed)
		slices.SortStableFunc(health.Providers, func(a, b adminapi.ProviderHealth) int {
			return cmp.Compare(b.Last15Minutes.Failed, a.Last15Minutes.Failed)
		})
		return health, err
	}
	err := adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, healthTable)
	if err == nil && failing {
		return adminflags.ErrUnhealthy
	}
	return err
}

func healthTable(out *console.Text, health adminapi.Health) {
	window := func(w adminapi.HealthWindow) string {
		if w.Attempts == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d", w.Failed, w.Attempts)
	}
	out.Table("There is no provider.",
		[]string{"PROVIDER", "STATE", "FAILED/15M", "FAILED/24H", "P50", "P95", "LAST FAILED", "WITH"},
		admincli.Rows(health.Providers, func(p adminapi.ProviderHealth) []string {
			state := p.State
			if p.CoolingUntil != nil {
				state += " until " + p.CoolingUntil.UTC().Format(time.TimeOnly) + " UTC"
			}
			return []string{p.Provider, state, window(p.Last15Minutes), window(p.Last24Hours),
				latency(p.Last24Hours.Duration.P50), latency(p.Last24Hours.Duration.P95), out.TimeOr(p.LastErrorAt, ""),
				p.LastError}
		}))
}

// latency is empty where it is not known.
func latency(ms int64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
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
