// Package approval decides which changes of keys, projects and organizations wait until a second person approves them.
//
// It decides by what can be spent, and not by the budgets of one object: a key without a budget may spend what its
// project and its organization may. Whoever raises what an object may spend above the amount of a rule needs approval,
// by whatever field. A budget that is not there is above every amount.
package approval

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// unlimited is what can be spent without a budget, in billionths of a dollar.
const unlimited = math.MaxInt64

// longestMonth is how many days a month has at most.
const longestMonth = 31

// Tenants are the organizations and projects at one time. Its functions return nil if there is no such object.
type Tenants struct {
	Organization func(name string) *configv1.Organization
	Project      func(name string) *configv1.Project // name is "<organization>/<project>"
}

// A Change is a change of one object. Was is nil if it is created.
type Change struct {
	Was, Now configv1.Object
	// At is when the change is asked for.
	At time.Time
	// Before and After are the tenants before the change, and after what is changed with it.
	Before, After Tenants
}

// A Reason is why a change waits.
type Reason struct {
	Rule *configv1.ApprovalRule
	Why  string
}

// Needed returns the rules by which a change waits. Only keys, projects and organizations wait.
func Needed(rules []*configv1.ApprovalRule, c Change) []Reason {
	var all []Reason
	for _, r := range rules {
		if why := needed(r, c); why != "" {
			all = append(all, Reason{r, why})
		}
	}
	return all
}

func needed(r *configv1.ApprovalRule, c Change) string {
	before, _ := subject(r, c.Was, c.Before)
	after, ok := subject(r, c.Now, c.After)
	if !ok {
		return ""
	}
	if why := raised(r, before, after); why != "" {
		return why
	}
	now, isKey := c.Now.(*configv1.Key)
	if !isKey || !r.GetKeys() {
		return ""
	}
	was, _ := c.Was.(*configv1.Key)
	if was == nil && isTrial(now, c.At) {
		return ""
	}
	if was == nil || !covers(r, was.GetOrganization(), was.GetProject()) {
		return "the key is new"
	}
	return wider(was, now, before, after)
}

// isTrial reports whether a key is only good for a trial: it ends within an hour, and its own budget is no larger than
// a trial's. The gateway's own pages and commands make such keys.
func isTrial(k *configv1.Key, at time.Time) bool {
	allowed, err := configv1.ParseUSD(configv1.TrialUSD)
	if err != nil || k.GetExpiresAt() == nil || k.GetExpiresAt().AsTime().Sub(at) > configv1.TrialLife {
		return false
	}
	return spending{unlimited, unlimited}.bounded(k.GetBudgets()).month <= allowed
}

// covers reports whether a rule is about objects of an organization and project.
func covers(r *configv1.ApprovalRule, organization, project string) bool {
	return !r.GetDisabled() && configv1.Covers(r, configv1.Client{Organization: organization, Project: project})
}

// raised says that more can be spent than a rule allows, and more than before.
func raised(r *configv1.ApprovalRule, before, after spending) string {
	for _, limit := range []struct {
		usd, unit     string
		before, after int64
	}{
		{r.GetBudgetUsdDay(), "day", before.day, after.day},
		{r.GetBudgetUsdMonth(), "month", before.month, after.month},
	} {
		allowed, err := configv1.ParseUSD(limit.usd)
		if limit.usd == "" || err != nil || limit.after <= max(allowed, limit.before) {
			continue
		}
		return fmt.Sprintf("it may spend %s a %s, which is more than $%s", inWords(limit.after), limit.unit, limit.usd)
	}
	return ""
}

func inWords(nanos int64) string {
	if nanos == unlimited {
		return "without a limit"
	}
	text := strings.TrimRight(fmt.Sprintf("%d.%09d", nanos/1e9, nanos%1e9), "0")
	return "up to $" + strings.TrimSuffix(text, ".")
}

// spending is the highest possible spending, in billionths of a dollar. The zero value stands for a missing object.
type spending struct{ day, month int64 }

// bounded returns the highest possible spending within budgets.
func (s spending) bounded(budgets []*configv1.Budget) spending {
	for _, b := range budgets {
		nanos, err := configv1.ParseUSD(b.GetUsd())
		if err != nil {
			continue
		}
		switch b.GetUnit() {
		case configv1.Unit_DAY:
			s.day = min(s.day, nanos)
		case configv1.Unit_MONTH:
			s.month = min(s.month, nanos)
		}
	}
	s.day = min(s.day, s.month)
	if s.day < unlimited/longestMonth {
		s.month = min(s.month, longestMonth*s.day)
	}
	return s
}

// subject returns what can be spent with an object, as a rule sees it. It is false if the rule is not about it. An
// organization concerns also the rules of its projects: with its budget, theirs rises.
func subject(r *configv1.ApprovalRule, o configv1.Object, t Tenants) (spending, bool) {
	none := spending{unlimited, unlimited}
	switch o := o.(type) {
	case *configv1.Key:
		if !covers(r, o.GetOrganization(), o.GetProject()) {
			return spending{}, false
		}
		return t.of(none.bounded(o.GetBudgets()), o.GetOrganization(), o.GetProject()), true
	case *configv1.Project:
		organization, project, _ := strings.Cut(o.GetName(), "/")
		if !covers(r, organization, project) {
			return spending{}, false
		}
		return t.of(none.bounded(o.GetBudgets()), organization, ""), true
	case *configv1.Organization:
		if !covers(r, o.GetName(), r.GetProject()) {
			return spending{}, false
		}
		s := none.bounded(o.GetBudgets())
		if r.GetProject() != "" {
			s = s.bounded(t.Project(o.GetName() + "/" + r.GetProject()).GetBudgets())
		}
		return s, true
	}
	return spending{}, false
}

// of returns the highest possible spending within the budgets of an organization and its project.
// Either may be empty.
func (t Tenants) of(s spending, organization, project string) spending {
	if organization == "" {
		return s
	}
	s = s.bounded(t.Organization(organization).GetBudgets())
	if project != "" {
		s = s.bounded(t.Project(organization + "/" + project).GetBudgets())
	}
	return s
}

// wider names the first right that a key has gained, or returns "".
func wider(was, now *configv1.Key, before, after spending) string {
	switch {
	case was.GetOrganization() != now.GetOrganization() || was.GetProject() != now.GetProject():
		return "the key is of another organization or project"
	case was.GetDisplayName() != now.GetDisplayName():
		return "the key has another name, by which policies may judge"
	case was.GetDisabled() && !now.GetDisabled():
		return "the key is enabled"
	case after.day > before.day || after.month > before.month:
		return "the key may spend more"
	case moreIn(was.GetModels(), now.GetModels()):
		return "the key may use other models"
	case moreIn(was.GetEndpoints(), now.GetEndpoints()):
		return "the key may use other endpoints"
	case moreIn(was.GetAddresses(), now.GetAddresses()):
		return "the key may be used from other addresses"
	case was.GetExpiresAt() != nil &&
		(now.GetExpiresAt() == nil || now.GetExpiresAt().AsTime().After(was.GetExpiresAt().AsTime())):
		return "the key expires later"
	case slices.ContainsFunc(was.GetLimits(), func(l *configv1.Limit) bool { return !limits(now, l) }):
		return "a limit of the key is higher, or gone"
	}
	return ""
}

// moreIn reports whether a list has something that another lacks. An empty list allows everything.
func moreIn(was, now []string) bool {
	if len(was) == 0 {
		return false
	}
	return len(now) == 0 || slices.ContainsFunc(now, func(s string) bool { return !slices.Contains(was, s) })
}

// limits reports whether a key has a limit, or a lower one of the same kind.
func limits(k *configv1.Key, l *configv1.Limit) bool {
	return slices.ContainsFunc(k.GetLimits(), func(o *configv1.Limit) bool {
		return o.GetDomain() == l.GetDomain() && o.GetUnit() == l.GetUnit() && o.GetModel() == l.GetModel() &&
			o.GetRequestsPerUnit() <= l.GetRequestsPerUnit()
	})
}
