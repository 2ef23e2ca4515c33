package queries

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/usage"
)

// Consumption returns the used part of the limits and budgets of a key, its organization and its project.
func (q *Service) Consumption(ctx context.Context, name string) (adminapi.Consumption, error) {
	none := adminapi.Consumption{}
	entry, err := q.options.Store.Get(ctx, configv1.KeyKind(), name)
	if err != nil {
		return none, err
	}
	caller, _ := authz.PrincipalOf(ctx)
	if !caller.Sees(entry.Object) {
		return none, fmt.Errorf("%s %s: %w", entry.Kind.Name, entry.Name, configstore.ErrNotFound)
	}
	key, ok := entry.Object.(*configv1.Key)
	if !ok {
		return none, configv1.Errors{{Object: "Key " + entry.Name, Message: entry.Err.Error()}}
	}
	c := &consumption{queries: q, now: time.Now().UTC()}
	c.answer = adminapi.Consumption{Limits: []adminapi.LimitUse{}, Budgets: []adminapi.BudgetUse{}}
	if err := c.of(ctx, key); err != nil {
		return none, ledger.Unavailable(err)
	}
	return c.answer, nil
}

// A consumption collects the use of one key.
type consumption struct {
	queries *Service
	now     time.Time
	answer  adminapi.Consumption
}

// An owner is what limits and budgets can be of.
type owner interface {
	GetLimits() []*configv1.Limit
	GetBudgets() []*configv1.Budget
}

func (c *consumption) of(ctx context.Context, key *configv1.Key) error {
	organization, project := key.GetOrganization(), key.GetProject()
	if err := c.add(ctx, "key/"+key.GetName(), ledger.Restriction{Key: key.GetName()}, key); err != nil {
		return err
	}
	if organization != "" && authz.SeesTenant(ctx, organization, "") {
		if err := c.addShared(ctx, configv1.KindOf((*configv1.Organization)(nil)), organization,
			ledger.Restriction{Organization: organization}); err != nil {
			return err
		}
	}
	if project != "" {
		of := ledger.Restriction{Organization: organization, Project: project}
		if err := c.addShared(ctx, configv1.KindOf((*configv1.Project)(nil)), organization+"/"+project, of); err != nil {
			return err
		}
	}
	used, err := c.queries.options.Ledger.LastUsed(ctx, key.GetName())
	if last, ok := used[key.GetName()]; ok {
		c.answer.LastUsed = &last
	}
	return err
}

// addShared adds what an organization or a project sets, which there need not be.
func (c *consumption) addShared(ctx context.Context, kind configv1.Kind, name string, of ledger.Restriction) error {
	entry, err := c.queries.options.Store.Get(ctx, kind, name)
	if errors.Is(err, configstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if o, ok := entry.Object.(owner); ok {
		return c.add(ctx, strings.ToLower(kind.Name)+"/"+name, of, o)
	}
	return nil
}

func (c *consumption) add(ctx context.Context, scope string, of ledger.Restriction, o owner) error {
	for _, l := range o.GetLimits() {
		use := adminapi.LimitUse{Scope: scope, Domain: l.GetDomain(), Model: l.GetModel(),
			Limit: int64(l.GetRequestsPerUnit())}
		if l.GetUnit() != configv1.Unit_UNIT_UNSPECIFIED {
			use.Unit = strings.ToLower(l.GetUnit().String())
		}
		var err error
		if use.Used, err = c.used(ctx, of, l); err != nil {
			return err
		}
		c.answer.Limits = append(c.answer.Limits, use)
	}
	if len(o.GetBudgets()) == 0 {
		return nil
	}
	spent, err := c.queries.options.Ledger.SpentBy(ctx, scope)
	if err != nil {
		return err
	}
	week, err := c.queries.options.Ledger.Week(ctx, scope)
	if err != nil {
		return err
	}
	for _, b := range o.GetBudgets() {
		use := budgetUse(scope, b, spent[scope].Day, spent[scope].Month, c.now)
		foresee(&use, week[scope], c.now)
		c.answer.Budgets = append(c.answer.Budgets, use)
	}
	return nil
}

// used returns the use in a limit's window that ends now. The bucket in which the window begins counts for the part
// inside it. The result is nil if the ledger does not know.
func (c *consumption) used(ctx context.Context, of ledger.Restriction, l *configv1.Limit) (*int64, error) {
	window, width := windowOf(l.GetUnit())
	domain := configv1.DomainOf(l.GetDomain())
	if window == 0 || strings.Contains(l.GetModel(), "*") || domain.Used(1, 1, 1) == 0 {
		return nil, nil
	}
	begin := c.now.Add(-window)
	first := begin.Truncate(width)
	q := ledger.Query{Restriction: of, From: first, To: c.now.Truncate(width).Add(width), Width: width}
	if l.GetModel() != "" {
		q.Models = []string{l.GetModel()}
	}
	rows, err := c.queries.options.Ledger.Rows(ctx, q)
	if err != nil {
		return nil, err
	}
	var sum int64
	for _, row := range rows {
		amount := domain.Used(row.Requests, row.Used[usage.InputTokens], row.Used[usage.OutputTokens])
		if row.Start.Equal(first) {
			// rounded up: what was used does not look as if it were not
			amount = (amount*int64(width-begin.Sub(first)) + int64(width) - 1) / int64(width)
		}
		sum += amount
	}
	return &sum, nil
}

// windowOf returns the length of a window, or 0 for none, and the width of the buckets that are added up for it.
func windowOf(u configv1.Unit) (window, width time.Duration) {
	switch u {
	case configv1.Unit_MINUTE:
		return time.Minute, time.Minute
	case configv1.Unit_HOUR:
		return time.Hour, time.Minute
	case configv1.Unit_DAY:
		return 24 * time.Hour, time.Hour
	}
	return 0, 0
}
