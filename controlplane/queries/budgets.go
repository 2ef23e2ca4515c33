package queries

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// mostBudgets is how many budgets are listed.
	mostBudgets = 100
	// budgetsFor is how long what is spent of them is kept.
	budgetsFor = time.Second
)

// Budgets returns the budgets that the caller may see, those first of which most will be spent.
func (q *Service) Budgets(ctx context.Context) (adminapi.Budgets, error) {
	all, err := q.budgetUses(ctx)
	if err != nil {
		return adminapi.Budgets{}, ledger.Unavailable(err)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(b adminapi.BudgetUse) bool { return !q.maySee(ctx, b.Scope) })
	slices.SortFunc(all, func(a, b adminapi.BudgetUse) int {
		return cmp.Or(cmp.Compare(b.Percent(b.Forecast), a.Percent(a.Forecast)),
			cmp.Compare(b.Percent(b.Spent), a.Percent(a.Spent)), strings.Compare(a.Scope, b.Scope))
	})
	out := adminapi.Budgets{Items: all, LeftOut: max(len(all)-mostBudgets, 0)}
	out.Items = append([]adminapi.BudgetUse{}, all[:len(all)-out.LeftOut]...)
	return out, nil
}

// maySee reports whether the caller may read the owner of a budget.
func (q *Service) maySee(ctx context.Context, scope string) bool {
	kind, name, _ := strings.Cut(scope, "/")
	if kind == "key" {
		_, keys := q.options.Plane.Keys()
		caller, _ := authz.PrincipalOf(ctx)
		return authz.Needs(ctx, authz.KeysRead) == nil && caller.Sees(keys[name])
	}
	organization, project := authz.SplitProject(name)
	return authz.Needs(ctx, authz.ConfigRead) == nil && authz.SeesTenant(ctx, organization, project)
}

// An owned has the fields of an owner that its budgets need.
type owned struct {
	scope, name string
	budgets     []*configv1.Budget
}

// owners returns everybody who has a budget.
func (q *Service) owners(ctx context.Context) ([]owned, error) {
	var all []owned
	add := func(kind configv1.Kind, name string, o configv1.Object) {
		if of, ok := o.(owner); ok && len(of.GetBudgets()) > 0 {
			all = append(all, owned{strings.ToLower(kind.Name) + "/" + name, configv1.DisplayName(o), of.GetBudgets()})
		}
	}
	_, keys := q.options.Plane.Keys()
	key := configv1.KeyKind()
	for name, o := range keys {
		add(key, name, o)
	}
	for _, kind := range []configv1.Kind{configv1.KindOf((*configv1.Organization)(nil)),
		configv1.KindOf((*configv1.Project)(nil))} {
		entries, err := q.options.Store.List(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			add(kind, e.Name, e.Object)
		}
	}
	return all, nil
}

// budgetUses returns what of every budget is spent, in no order. It is shared.
func (q *Service) budgetUses(ctx context.Context) ([]adminapi.BudgetUse, error) {
	return q.budgeted.get(budgetsFor, func() ([]adminapi.BudgetUse, error) { return q.gatherBudgets(ctx) })
}

func (q *Service) gatherBudgets(ctx context.Context) ([]adminapi.BudgetUse, error) {
	owners, err := q.owners(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	var all []adminapi.BudgetUse
	for some := range slices.Chunk(owners, 1000) { // as many as the ledger answers at once
		scopes := make([]string, len(some))
		for i, o := range some {
			scopes[i] = o.scope
		}
		spent, err := q.options.Ledger.SpentBy(ctx, scopes...)
		if err != nil {
			return nil, err
		}
		week, err := q.options.Ledger.Week(ctx, scopes...)
		if err != nil {
			return nil, err
		}
		for _, o := range some {
			for _, b := range o.budgets {
				use := budgetUse(o.scope, b, spent[o.scope].Day, spent[o.scope].Month, now)
				use.DisplayName = o.name
				foresee(&use, week[o.scope], now)
				all = append(all, use)
			}
		}
	}
	return all, nil
}

// budgetUse returns what of a budget is spent.
func budgetUse(scope string, b *configv1.Budget, inDay, inMonth usage.Nano, now time.Time) adminapi.BudgetUse {
	use := adminapi.BudgetUse{Scope: scope, Unit: strings.ToLower(b.GetUnit().String()), USD: b.GetUsd()}
	year, month, day := now.UTC().Date()
	if b.GetUnit() == configv1.Unit_MONTH {
		use.Spent, use.Resets = inMonth.String(), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	} else {
		use.Spent, use.Resets = inDay.String(), time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
	}
	return use
}

// foresee sets what will be spent when the period ends, if from now on a day costs as much as in the last 7 days and
// what has gone of today, and when the budget is spent then. If the first money was spent later, it divides by the
// days since, and at least by one.
func foresee(use *adminapi.BudgetUse, week ledger.Week, now time.Time) {
	spent, err := usage.ParseUSD(use.Spent)
	if err != nil {
		return
	}
	passed := max(now.Sub(week.From), 24*time.Hour)
	rest := use.Resets.Sub(now)
	use.Forecast = spent.Plus(usage.Nano(float64(week.Spent) * float64(rest) / float64(passed))).String()
	budget, err := usage.ParseUSD(use.USD)
	if err != nil || budget <= spent || week.Spent == 0 {
		return
	}
	left := float64(budget-spent) / float64(week.Spent) * float64(passed)
	if left < float64(rest) {
		at := now.Add(time.Duration(left)).Truncate(time.Second)
		use.SpentAt = &at
	}
}
