package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/usage"
)

// A tenant is an object with limits and budgets, and those that hold for it besides.
type tenant struct {
	label   string // Key key_01JD...
	limits  []*configv1.Limit
	budgets []*configv1.Budget
	above   []string // labels
}

// tenants returns keys, projects and organizations by their labels.
func (p *patient) tenants() map[string]tenant {
	all := map[string]tenant{}
	for _, o := range objects[*configv1.Organization](p) {
		all[configv1.Label(o)] = tenant{configv1.Label(o), o.GetLimits(), o.GetBudgets(), nil}
	}
	for _, o := range objects[*configv1.Project](p) {
		organization, _, _ := strings.Cut(o.GetName(), "/")
		all[configv1.Label(o)] = tenant{configv1.Label(o), o.GetLimits(), o.GetBudgets(),
			[]string{"Organization " + organization}}
	}
	for _, k := range objects[*configv1.Key](p) {
		all[configv1.Label(k)] = tenant{configv1.Label(k), k.GetLimits(), k.GetBudgets(),
			[]string{"Project " + k.GetOrganization() + "/" + k.GetProject(), "Organization " + k.GetOrganization()}}
	}
	return all
}

func (p *patient) hasBudgets() bool {
	for _, t := range p.tenants() {
		if len(t.budgets) > 0 {
			return true
		}
	}
	return false
}

func checkEmptyLimits(p *patient) []Finding {
	var empty []string
	all := p.tenants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, l := range all[name].limits {
			if l.GetRequestsPerUnit() == 0 {
				empty = append(empty, name+" ("+admincli.LimitsOf([]*configv1.Limit{l})+")")
			}
		}
		for _, b := range all[name].budgets {
			if nano, err := usage.ParseUSD(b.GetUsd()); err == nil && nano == 0 {
				empty = append(empty, name+" ("+admincli.BudgetsOf([]*configv1.Budget{b})+")")
			}
		}
	}
	if len(empty) == 0 {
		return nil
	}
	return []Finding{{Severity: Warning, What: "Limits of 0 refuse every request to which they apply: " +
		admincli.Some(empty) + ".",
		Why:  "0 is not the same as no limit.",
		Mend: "Remove the limit with config apply, or disable the key if that is the intention"}}
}

// seconds of units of limits, which is how they are compared.
func seconds(u configv1.Unit) uint64 {
	return map[configv1.Unit]uint64{
		configv1.Unit_SECOND: 1, configv1.Unit_MINUTE: 60, configv1.Unit_HOUR: 3600, configv1.Unit_DAY: 86400,
		configv1.Unit_MONTH: 31 * 86400,
	}[u]
}

// checkLimits looks for limits and budgets that can never be reached, since another one is reached before.
func checkLimits(p *patient) []Finding {
	groups := map[string][]string{} // who, by what
	all := p.tenants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		inner := all[name]
		for _, outer := range append([]string{name}, inner.above...) {
			for _, what := range unreachable(inner, all[outer]) {
				groups[what] = append(groups[what], name)
			}
		}
	}
	var found []Finding
	for _, what := range slices.Sorted(maps.Keys(groups)) {
		found = append(found, Finding{Severity: Warning, What: fmt.Sprintf("%s (%s)", what, admincli.Some(groups[what])),
			Why:  "It has no effect, because the other is always reached first.",
			Mend: "Lower it below the other, or remove it: modelgate config get KIND NAME, then config apply"})
	}
	return found
}

// unreachable returns the limits of inner that an equal or shorter sum of outer's always ends first. The two may be
// the same.
func unreachable(inner, outer tenant) []string {
	var found []string
	for _, l := range inner.limits {
		for _, o := range outer.limits {
			if l != o && covers(o, l) {
				found = append(found, fmt.Sprintf("The limit of %s can never be reached: %s has %s.",
					admincli.LimitsOf([]*configv1.Limit{l}), outer.label, admincli.LimitsOf([]*configv1.Limit{o})))
			}
		}
	}
	for _, b := range inner.budgets {
		for _, o := range outer.budgets {
			mine, errMine := usage.ParseUSD(b.GetUsd())
			theirs, errTheirs := usage.ParseUSD(o.GetUsd())
			if b != o && cmp.Or(errMine, errTheirs) == nil && mine > theirs && seconds(b.GetUnit()) <= seconds(o.GetUnit()) {
				found = append(found, fmt.Sprintf("The budget of %s can never be reached: %s has %s.",
					admincli.BudgetsOf([]*configv1.Budget{b}), outer.label, admincli.BudgetsOf([]*configv1.Budget{o})))
			}
		}
	}
	return found
}

// covers reports whether o is reached before l, whatever is used: it counts all that l counts, over at least the same
// time, and is smaller.
func covers(o, l *configv1.Limit) bool {
	counts := configv1.DomainOf(o.GetDomain()).Covers(configv1.DomainOf(l.GetDomain()))
	models := o.GetModel() == "" || o.GetModel() == l.GetModel()
	return counts && models && seconds(o.GetUnit()) >= seconds(l.GetUnit()) &&
		o.GetRequestsPerUnit() < l.GetRequestsPerUnit()
}

// checkRateLimits looks for descriptors of things that are not there.
func checkRateLimits(p *patient) []Finding {
	known := map[string]map[string]bool{"provider": {}, "organization": {}, "key": {}}
	for _, o := range objects[*configv1.Provider](p) {
		known["provider"][o.GetName()] = true
	}
	for _, o := range objects[*configv1.Organization](p) {
		known["organization"][o.GetName()] = true
	}
	for _, k := range objects[*configv1.Key](p) {
		known["key"][k.GetName()], known["organization"][k.GetOrganization()] = true, true
	}
	var found []Finding
	for _, r := range objects[*configv1.RateLimit](p) {
		var idle []string
		walk(r.GetDescriptors(), func(d *configv1.RateLimitDescriptor) {
			names, checked := known[d.GetKey()]
			if v := d.GetValue(); checked && v != "" && !strings.HasSuffix(v, "*") && !names[v] {
				idle = append(idle, d.GetKey()+" "+v)
			}
		})
		if len(idle) > 0 {
			found = append(found, Finding{Severity: Warning, What: fmt.Sprintf("RateLimit %s names objects that do not exist: %s.",
				r.GetName(), admincli.Some(idle)),
				Why: "The descriptor matches no request and limits nothing.", Mend: "modelgate config get ratelimit " +
					r.GetName() + ", then config apply"})
		}
	}
	return found
}

func walk(descriptors []*configv1.RateLimitDescriptor, visit func(*configv1.RateLimitDescriptor)) {
	for _, d := range descriptors {
		visit(d)
		walk(d.GetDescriptors(), visit)
	}
}

// almostUsed is the part of a quota, in percent, from which on an operator is warned.
const almostUsed = 80

// checkQuotas looks for tenants that will soon be refused at the job service.
func checkQuotas(p *patient) []Finding {
	var found []Finding
	for _, item := range p.quotas {
		for _, q := range item.Quotas {
			if q.Percent() >= almostUsed {
				found = append(found, Finding{Severity: Warning,
					What: fmt.Sprintf("%s has used %d%% of its quota %s: %d of %d.", item.Owner(), q.Percent(), q.Name, q.Used,
						q.Limit),
					Why: "When it is used up, requests that need more of it are refused with insufficient_quota.",
					Mend: "Ask the tenant to remove unused objects, or raise quotas." + q.Name +
						": modelgate config get KIND NAME, then config apply"})
			}
		}
	}
	return found
}

// checkSignIn looks at who signs people in.
func checkSignIn(p *patient) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(p.people)) {
		if t := p.people[name]; !t.OK {
			found = append(found, Finding{Severity: Warning,
				What: fmt.Sprintf("Nobody can sign in with the identity provider %s: %s", name, t.Message),
				Why:  "People need a password, or a link: modelgate dashboard link. Who is signed in already stays.",
				Mend: "Correct the IdentityProvider, or see to the issuer: docs/sign-in.md"})
		}
	}
	return found
}

// checkReceivers looks at who gets alerts.
func checkReceivers(p *patient) (found []Finding) {
	for _, r := range p.told {
		if r.Error != "" && !r.Disabled {
			found = append(found, Finding{Severity: Warning,
				What: fmt.Sprintf("The receiver of alerts %s fails: %s. %d messages wait.", r.Name, r.Error, r.Waiting),
				Why:  "Nobody is told there. A message is given up after 24 hours.",
				Mend: "Correct the AlertReceiver, then: modelgate alerts test " + r.Name})
		}
	}
	return found
}
