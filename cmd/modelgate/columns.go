package main

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// columns returns the header of a kind's table, and what makes a row of an object.
func columns(kind configv1.Kind) (header []string, row func(adminapi.Item) []string) {
	names, cells := columnsOf(kind)
	header = append(append([]string{"NAME"}, names...), "STATE")
	return header, func(i adminapi.Item) []string {
		row := make([]string, 1, len(header))
		row[0] = i.Name
		if i.Object != nil {
			row = append(row, cells(i.Object)...)
		} else {
			row = append(row, make([]string, len(names))...)
		}
		return append(row, stateOf(i, time.Now()))
	}
}

// columnsOf returns what is shown of a kind besides its name and state.
func columnsOf(kind configv1.Kind) (names []string, cells func(configv1.Object) []string) {
	switch kind.New().(type) {
	case *configv1.Provider:
		return []string{"VENDOR", "ENDPOINT"}, func(o configv1.Object) []string {
			p := o.(*configv1.Provider)
			return []string{p.GetVendor(), p.GetEndpoint()}
		}
	case *configv1.Model:
		return []string{"TARGETS"}, func(o configv1.Object) []string {
			var targets []string
			for _, t := range o.(*configv1.Model).GetTargets() {
				targets = append(targets, t.GetProvider()+"/"+t.GetModel())
			}
			return []string{strings.Join(targets, ",")}
		}
	case *configv1.Key:
		names = []string{"LABEL", "HINT", "ORGANIZATION", "PROJECT", "MODELS", "OWNER", "EXPIRES"}
		return names, func(o configv1.Object) []string {
			k := o.(*configv1.Key)
			models := "all"
			if len(k.GetModels()) > 0 {
				models = strings.Join(k.GetModels(), ",")
			}
			return []string{k.GetDisplayName(), "..." + k.GetHint(), k.GetOrganization(), k.GetProject(), models,
				k.GetOwner(), whenever(k.GetExpiresAt())}
		}
	case *configv1.Organization, *configv1.Project:
		return []string{"LABEL", "LIMITS", "BUDGETS"}, func(o configv1.Object) []string {
			s := o.(shared)
			return []string{s.GetDisplayName(), admincli.LimitsOf(s.GetLimits()), admincli.BudgetsOf(s.GetBudgets())}
		}
	case *configv1.Account:
		return []string{"LABEL", "ROLE"}, func(o configv1.Object) []string {
			a := o.(*configv1.Account)
			if a.GetRole() == configv1.Role_ROLE_UNSPECIFIED {
				return []string{a.GetDisplayName(), "none"}
			}
			return []string{a.GetDisplayName(), strings.ToLower(a.GetRole().String())}
		}
	case *configv1.AdminToken:
		return []string{"LABEL", "HINT", "SCOPES", "OWNER", "EXPIRES"}, func(o configv1.Object) []string {
			t := o.(*configv1.AdminToken)
			return []string{t.GetDisplayName(), "..." + t.GetHint(), strings.Join(t.GetScopes(), ","),
				t.GetOwner(), whenever(t.GetExpiresAt())}
		}
	case *configv1.RateLimit:
		return []string{"DOMAIN", "DESCRIPTORS"}, func(o configv1.Object) []string {
			l := o.(*configv1.RateLimit)
			return []string{l.GetDomain(), strconv.Itoa(len(l.GetDescriptors()))}
		}
	}
	return nil, func(configv1.Object) []string { return nil }
}

// shared is what an Organization and a Project have in common.
type shared interface {
	configv1.Object
	GetDisplayName() string
	GetLimits() []*configv1.Limit
	GetBudgets() []*configv1.Budget
}

func whenever(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return t.AsTime().Format(time.RFC3339)
}

// stateOf says whether an object has effect.
func stateOf(i adminapi.Item, now time.Time) string {
	if i.Status.Error != "" {
		return "error: " + i.Status.Error
	}
	if a, ok := i.Object.(*configv1.Account); ok && a.Barred() {
		return "disabled"
	}
	if d, ok := i.Object.(interface{ GetDisabled() bool }); ok && d.GetDisabled() {
		return "disabled"
	}
	if e, ok := i.Object.(interface{ GetExpiresAt() *timestamppb.Timestamp }); ok && e.GetExpiresAt() != nil &&
		!e.GetExpiresAt().AsTime().After(now) {
		return "expired"
	}
	return "active"
}

// consumptionRows are what is used of limits and budgets: scope, what, model, used, limit, when it resets.
func consumptionRows(c adminapi.Consumption) [][]string {
	var rows [][]string
	for _, l := range c.Limits {
		used := "?" // the ledger does not know what runs
		if l.Used != nil {
			used = strconv.FormatInt(*l.Used, 10)
		}
		what := configv1.DomainOf(l.Domain).Text()
		if l.Unit != "" {
			what += "/" + l.Unit
		}
		rows = append(rows, []string{l.Scope, what, l.Model, used, strconv.FormatInt(l.Limit, 10), ""})
	}
	for _, b := range c.Budgets {
		rows = append(rows, []string{b.Scope, "USD/" + b.Unit, "", b.Spent, b.USD, b.Resets.UTC().Format(time.RFC3339)})
	}
	return rows
}
