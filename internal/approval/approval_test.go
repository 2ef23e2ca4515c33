package approval_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/approval"
)

func day(usd string) []*configv1.Budget {
	return []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: usd}}
}

func month(usd string) []*configv1.Budget {
	return []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: usd}}
}

func tenants(organization, project []*configv1.Budget) approval.Tenants {
	return approval.Tenants{
		Organization: func(name string) *configv1.Organization {
			return &configv1.Organization{Name: name, Budgets: organization}
		},
		Project: func(name string) *configv1.Project { return &configv1.Project{Name: name, Budgets: project} },
	}
}

func TestWhatCanBeSpentDecides(t *testing.T) {
	key := func(organization, project string, b []*configv1.Budget) *configv1.Key {
		return &configv1.Key{Name: "k", Organization: organization, Project: project, Budgets: b}
	}
	org := func(b []*configv1.Budget) *configv1.Organization {
		return &configv1.Organization{Name: "o", Budgets: b}
	}
	perMonth := &configv1.ApprovalRule{Name: "r", BudgetUsdMonth: "100"}
	perDay := &configv1.ApprovalRule{Name: "r", BudgetUsdDay: "10"}
	ofProject := &configv1.ApprovalRule{Name: "r", Organization: "o", Project: "p", BudgetUsdMonth: "100"}
	type change = approval.Change
	project := &configv1.Project{Name: "o/p"}
	for name, c := range map[string]struct {
		rule   *configv1.ApprovalRule
		change change
		why    string
	}{
		"at the amount":      {perMonth, change{Now: key("", "", month("100"))}, ""},
		"a cent above":       {perMonth, change{Now: key("", "", month("100.01"))}, "up to $100.01 a month"},
		"no budget":          {perMonth, change{Now: key("", "", nil)}, "without a limit a month"},
		"a day's":            {perMonth, change{Now: key("", "", day("4"))}, "up to $124 a month"},
		"a small day's":      {perMonth, change{Now: key("", "", day("3"))}, ""},
		"a month's in a day": {perDay, change{Now: key("", "", month("11"))}, "up to $11 a day"},
		"the organization's": {perMonth, change{Now: key("o", "", nil), After: tenants(month("100"), nil)}, ""},
		"the project's":      {perMonth, change{Now: key("o", "p", nil), After: tenants(nil, month("90"))}, ""},
		"a project alone":    {perMonth, change{Now: key("", "p", nil), After: tenants(nil, month("90"))}, "without a limit"},
		"one more above":     {perMonth, change{Was: org(month("500")), Now: org(month("501"))}, "up to $501"},
		"less above":         {perMonth, change{Was: org(month("500")), Now: org(month("400"))}, ""},
		"more below":         {perMonth, change{Was: org(month("50")), Now: org(month("99"))}, ""},
		"left out":           {perMonth, change{Was: org(month("50")), Now: org(nil)}, "without"},
		"a project": {perMonth, change{Now: project},
			"without a limit"},
		"a project in a budget": {perMonth, change{Now: project, After: tenants(month("5"), nil)}, ""},
		"its organization":      {ofProject, change{Was: org(month("50")), Now: org(month("500"))}, "up to $500"},
		"but not above the project's own": {ofProject, change{Was: org(month("50")), Now: org(month("500")),
			Before: tenants(nil, month("90")), After: tenants(nil, month("90"))}, ""},
		"of another organization": {ofProject, change{Now: key("x", "p", nil)}, ""},
		"into the scope":          {ofProject, change{Was: key("o", "", nil), Now: key("o", "p", nil)}, "without a limit"},
		"another kind":            {perMonth, change{Now: &configv1.Model{Name: "m"}}, ""},
		"disabled":                {&configv1.ApprovalRule{Disabled: true, BudgetUsdMonth: "1"}, change{Now: org(nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []*approval.Tenants{&c.change.Before, &c.change.After} {
				if at.Organization == nil {
					*at = tenants(nil, nil)
				}
			}
			reasons := approval.Needed([]*configv1.ApprovalRule{c.rule}, c.change)
			if c.why == "" {
				require.Empty(t, reasons)
				return
			}
			require.Len(t, reasons, 1)
			require.Contains(t, reasons[0].Why, c.why)
		})
	}
}

func TestAKeyThatMayDoMoreWaits(t *testing.T) {
	at := func(day int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2030, 1, day, 0, 0, 0, 0, time.UTC))
	}
	limits := func(n uint64) []*configv1.Limit {
		return []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: n}}
	}
	stored := func() *configv1.Key {
		return &configv1.Key{Name: "k", DisplayName: "ci", Organization: "o", Models: []string{"a", "b"},
			Endpoints: []string{"e"}, Addresses: []string{"10.0.0.1"}, ExpiresAt: at(2), Limits: limits(10), Budgets: day("5"),
			Disabled: true}
	}
	rule := &configv1.ApprovalRule{Name: "r", Organization: "o", Keys: true}
	for name, c := range map[string]struct {
		change func(*configv1.Key)
		why    string
	}{
		"nothing":         {func(*configv1.Key) {}, ""},
		"rotated":         {func(k *configv1.Key) { k.Hash, k.Hint = []byte{1}, "abcd" }, ""},
		"notes":           {func(k *configv1.Key) { k.Metadata = map[string]string{"a": "b"} }, ""},
		"fewer models":    {func(k *configv1.Key) { k.Models = []string{"b"} }, ""},
		"all models":      {func(k *configv1.Key) { k.Models = nil }, "models"},
		"another model":   {func(k *configv1.Key) { k.Models = []string{"a", "c"} }, "models"},
		"all endpoints":   {func(k *configv1.Key) { k.Endpoints = nil }, "endpoints"},
		"another address": {func(k *configv1.Key) { k.Addresses = []string{"10.0.0.0/8"} }, "addresses"},
		"earlier":         {func(k *configv1.Key) { k.ExpiresAt = at(1) }, ""},
		"later":           {func(k *configv1.Key) { k.ExpiresAt = at(3) }, "expires later"},
		"never":           {func(k *configv1.Key) { k.ExpiresAt = nil }, "expires later"},
		"lower limit":     {func(k *configv1.Key) { k.Limits = limits(9) }, ""},
		"more limits": {func(k *configv1.Key) {
			k.Limits = append(k.Limits, &configv1.Limit{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: 1})
		}, ""},
		"higher limit":   {func(k *configv1.Key) { k.Limits = limits(11) }, "limit"},
		"no limit":       {func(k *configv1.Key) { k.Limits = nil }, "limit"},
		"lower budget":   {func(k *configv1.Key) { k.Budgets = day("4") }, ""},
		"higher budget":  {func(k *configv1.Key) { k.Budgets = day("6") }, "spend more"},
		"enabled":        {func(k *configv1.Key) { k.Disabled = false }, "enabled"},
		"renamed":        {func(k *configv1.Key) { k.DisplayName = "x" }, "name"},
		"moved":          {func(k *configv1.Key) { k.Project = "p" }, "project"},
		"out of its way": {func(k *configv1.Key) { k.Organization = "x"; k.Models = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := stored()
			c.change(changed)
			reasons := approval.Needed([]*configv1.ApprovalRule{rule}, approval.Change{Was: stored(), Now: changed,
				Before: tenants(nil, nil), After: tenants(nil, nil)})
			require.Equal(t, c.why != "", len(reasons) == 1)
			if c.why != "" {
				require.Contains(t, reasons[0].Why, c.why)
			}
		})
	}
	reasons := approval.Needed([]*configv1.ApprovalRule{rule}, approval.Change{Now: stored(), Before: tenants(nil, nil),
		After: tenants(nil, nil)})
	require.Equal(t, "the key is new", reasons[0].Why)
}

// The playground and modelgate check need a key that works at once.
func TestAKeyForATrialDoesNotWait(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	trial := func() *configv1.Key {
		return &configv1.Key{Name: "k", ExpiresAt: timestamppb.New(now.Add(time.Hour)), Budgets: month("1")}
	}
	for name, c := range map[string]struct {
		rule   *configv1.ApprovalRule
		change func(*configv1.Key)
		waits  bool
	}{
		"a trial":         {&configv1.ApprovalRule{Keys: true}, func(*configv1.Key) {}, false},
		"above an amount": {&configv1.ApprovalRule{BudgetUsdMonth: "0.5"}, func(*configv1.Key) {}, true},
		"below an amount": {&configv1.ApprovalRule{BudgetUsdMonth: "1"}, func(*configv1.Key) {}, false},
		"for a day":       {&configv1.ApprovalRule{BudgetUsdDay: "1"}, func(*configv1.Key) {}, false},
		"longer": {&configv1.ApprovalRule{Keys: true}, func(k *configv1.Key) {
			k.ExpiresAt = timestamppb.New(now.Add(time.Hour + 1))
		}, true},
		"without an end":    {&configv1.ApprovalRule{Keys: true}, func(k *configv1.Key) { k.ExpiresAt = nil }, true},
		"more money":        {&configv1.ApprovalRule{Keys: true}, func(k *configv1.Key) { k.Budgets = month("1.01") }, true},
		"a dollar each day": {&configv1.ApprovalRule{Keys: true}, func(k *configv1.Key) { k.Budgets = day("1") }, true},
		"without a budget":  {&configv1.ApprovalRule{Keys: true}, func(k *configv1.Key) { k.Budgets = nil }, true},
		"made later, says its file": {&configv1.ApprovalRule{Keys: true}, func(k *configv1.Key) {
			k.CreatedAt, k.ExpiresAt = timestamppb.New(now.AddDate(9, 0, 0)), timestamppb.New(now.AddDate(9, 0, 0))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			key := trial()
			c.change(key)
			none := tenants(nil, nil)
			change := approval.Change{Now: key, At: now, Before: none, After: none}
			require.Equal(t, c.waits, len(approval.Needed([]*configv1.ApprovalRule{c.rule}, change)) > 0)
		})
	}
}
