package admin

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// BudgetCmd is the command budget.
type BudgetCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (BudgetCmd) Help() string {
	return `The budgets of which most will be spent come first, at most 100. The forecast is what will be spent at the end of the
period if the days go on as in the last week. LASTS UNTIL is when a budget is spent then, before it resets.

Example:
  modelgate budget`
}

// Run shows what is spent of budgets, and who will be over.
func (c BudgetCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Budgets, error) { return client.Budgets(ctx) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all adminapi.Budgets) {
			out.Table("There are no budgets: see docs/limits.md.",
				[]string{"OWNER", "PER", "STATE", "SPENT USD", "BUDGET USD", "FORECAST USD", "LASTS UNTIL", "RESETS"},
				admincli.Rows(all.Items, func(b adminapi.BudgetUse) []string {
					return []string{ownerOf(out, b), b.Unit, stateOfBudget(b), b.Spent, b.USD, b.Forecast,
						out.TimeOr(b.SpentAt, ""), out.Time(b.Resets)}
				}))
			if all.LeftOut > 0 {
				out.Printf("\n%d more budgets are not shown.\n", all.LeftOut)
			}
		})
}

// ownerOf returns whose budget it is, by name.
func ownerOf(out *console.Text, b adminapi.BudgetUse) string {
	kind, name, _ := strings.Cut(b.Scope, "/")
	return kind + " " + cmp.Or(b.DisplayName, out.Named(name))
}

// stateOfBudget says how much is spent, and whether more will be than there is.
func stateOfBudget(b adminapi.BudgetUse) string {
	spent := strconv.Itoa(b.Percent(b.Spent)) + " %"
	switch {
	case b.Percent(b.Spent) >= 100:
		return "exhausted, " + spent
	case b.Percent(b.Forecast) > 100:
		return "will be over, " + spent
	}
	return "ok, " + spent
}
